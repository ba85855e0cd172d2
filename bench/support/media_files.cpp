#include "bench/support/media_files.h"

#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "bench/support/data_set.h"
#include "energon/loader/savable_data_loader.h"
#include "io/error.h"
#include "io/prepare/prepare.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kShards = 4;

class SilentProgress final : public ProgressSink {
 public:
  void on_progress(const PrepareProgress&) override {}
};

void write_media_shards(const MediaFilesSpec& spec, const MakeParts& make) {
  const fs::path folder = spec.folder;
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (int shard = 0; shard < kShards; ++shard) {
    UstarWriter tar((folder / fmt::format("{:06}.tar", shard)).string());
    const std::int64_t end = spec.count * (shard + 1) / kShards;
    for (std::int64_t number = spec.count * shard / kShards; number < end; ++number) {
      const std::vector<std::string> parts = make(number);
      for (std::size_t part = 0; part < spec.parts.size(); ++part) {
        tar.add(fmt::format("{:08}.{}", number, spec.parts[part]), as_bytes(parts.at(part)));
      }
    }
    tar.finish();
  }
  SilentProgress progress;
  prepare(spec.folder, {}, progress);
}

}  // namespace

MediaFiles::MediaFiles(const MediaFilesSpec& spec, const MakeParts& make) : spec_(spec) {
  if (!fs::exists(fs::path(spec_.folder) / ".nv-meta" / ".info.json")) {
    write_media_shards(spec_, make);
  }
  read_all();
}

void MediaFiles::read_all() {
  files_.resize(static_cast<std::size_t>(spec_.count) * spec_.parts.size());
  SavableDataLoader loader(val_pipeline(open()));
  std::int64_t found = 0;
  while (const auto sample = loader.next()) {
    const std::int64_t number = sample_number(sample->keys.front());
    for (std::size_t part = 0; number < count() && part < spec_.parts.size(); ++part) {
      files_[static_cast<std::size_t>(number) * spec_.parts.size() + part] =
          std::string(as_text(sample->bytes(spec_.parts[part]).view));
    }
    ++found;
  }
  if (found != count()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the folder has {} samples, expected {}: delete it", found, count()),
                {.path = spec_.folder});
  }
}

ByteView MediaFiles::at(std::int64_t number, std::size_t part) const {
  return as_bytes(files_[static_cast<std::size_t>(number) * spec_.parts.size() + part]);
}

std::shared_ptr<const Webdataset> MediaFiles::open() const {
  return std::make_shared<const Webdataset>(open_split(spec_.folder));
}

std::int64_t sample_number(std::string_view key) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (error != std::errc() || end != key.data() + key.size() || number < 0) {
    throw Error(ErrorCode::kCorruptData, fmt::format("the key '{}' is not a number", key));
  }
  return number;
}

}  // namespace energon::bench
