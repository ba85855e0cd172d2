#include "tests/support/dataset_builder.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "io/prepare/prepare.h"
#include "tests/support/tar_builder.h"

namespace energon::testing {

std::string numbered_key(std::int64_t index) { return fmt::format("{:06}", index); }

void write_numbered_shards(const TempDir& folder, const std::vector<std::int64_t>& counts,
                           std::size_t payload_bytes) {
  std::int64_t index = 0;
  for (std::size_t shard = 0; shard < counts.size(); ++shard) {
    TarBuilder tar;
    for (std::int64_t i = 0; i < counts[shard]; ++i, ++index) {
      tar.file(numbered_key(index) + ".txt", std::to_string(index));
      if (payload_bytes > 0) {
        std::string payload(payload_bytes, '\0');
        std::uint64_t state = static_cast<std::uint64_t>(index) * 0x9E3779B97F4A7C15ULL + 1;
        for (char& byte : payload) {
          state = state * 6364136223846793005ULL + 1442695040888963407ULL;
          byte = static_cast<char>(state >> 56);
        }
        tar.file(numbered_key(index) + ".bin", payload);
      }
    }
    folder.write(fmt::format("shard-{:03}.tar", shard), tar.end().text());
  }
}

std::shared_ptr<const Webdataset> numbered_dataset(const TempDir& folder,
                                                   const std::vector<std::int64_t>& counts,
                                                   std::size_t payload_bytes,
                                                   const WebdatasetOptions& options) {
  write_numbered_shards(folder, counts, payload_bytes);
  return std::make_shared<const Webdataset>(open_split(folder.path()), options);
}

void write_prepared(const TempDir& folder, const PreparedSpec& spec) {
  std::int64_t index = spec.first;
  for (std::size_t shard = 0; shard < spec.counts.size(); ++shard) {
    TarBuilder tar;
    for (std::int64_t i = 0; i < spec.counts[shard]; ++i, ++index) {
      tar.file(numbered_key(index) + "." + spec.part, spec.prefix + std::to_string(index));
    }
    folder.write(fmt::format("{}/parts/data-{}.tar", spec.name, shard), tar.end().text());
  }
  class Silent final : public ProgressSink {
    void on_progress(const PrepareProgress& /*progress*/) override {}
  } silent;
  prepare(folder.file(spec.name), {.split_ratios = {{.part = "train", .weight = 1}}}, silent);
  if (!spec.split.empty()) {
    folder.write(spec.name + "/.nv-meta/split.yaml", spec.split);
  }
}

void write_jsonl(const TempDir& folder, const std::string& name, std::int64_t count,
                 std::int64_t first) {
  std::string text;
  for (std::int64_t i = first; i < first + count; ++i) {
    text += fmt::format("{{\"n\": {}}}\n", i);
  }
  folder.write(name, text);
}

std::vector<std::int64_t> numbers(const Sample& sample) {
  std::vector<std::int64_t> result;
  for (const std::string_view key : sample.keys) {
    result.push_back(std::stoll(std::string(key)));
  }
  return result;
}

}  // namespace energon::testing
