#include "io/lint/lint_summary.h"

#include <cstddef>
#include <limits>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/dataset/dataset_info.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/checksum_file.h"
#include "io/index/tar_index.h"

namespace energon {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

bool is_as_recorded(const SummarizedShard& shard, const LintedDataset& dataset, std::size_t i) {
  const ShardRecord* const record =
      dataset.records ? dataset.records->find(dataset.shards[i]) : nullptr;
  return shard.record.name == dataset.shards[i] && shard.sample_count == dataset.counts[i] &&
         (record == nullptr || *record == shard.record);
}

}  // namespace

std::shared_ptr<const ShardSummary> lint_summary(const LintedDataset& dataset, LintReport& report) {
  const std::string meta = dataset.folder + "/.nv-meta";
  const std::string path = shard_summary_path(meta);
  const auto text = read_info_text(meta);
  if (!text || !path_exists(path)) {
    return nullptr;
  }
  try {
    ShardSummary::parse(read_file(path, kNoLimit), path);
  } catch (const Error& error) {
    report.problems.push_back(problem_of("", error));
  }
  auto summary = load_shard_summary(meta, *text);
  if (!summary) {
    return nullptr;  // damaged, or of another prepare
  }
  bool is_same = summary->shards.size() == dataset.shards.size();
  for (std::size_t i = 0; is_same && i < dataset.shards.size(); ++i) {
    is_same = is_as_recorded(summary->shards[i], dataset, i);
  }
  if (!is_same) {
    report.problems.push_back(
        {.message = "shard_summary.bin contradicts .info.json or shard_record.bin; prepare the "
                    "dataset again"});
    return nullptr;
  }
  return summary;
}

std::string lint_summarized(const SummarizedShard& shard, const std::string& folder) {
  const std::string index_path = tar_index_path(folder + "/" + shard.record.name);
  const TarIndexSummary index = summarize_tar_index(index_path, kNoLimit);
  if (index.end_offset != shard.end_offset || index.sample_count != shard.sample_count) {
    return fmt::format(
        "its index has {} samples that end at byte {}, shard_summary.bin says {} "
        "and {}; prepare the dataset again",
        index.sample_count, index.end_offset, shard.sample_count, shard.end_offset);
  }
  const std::string checksums = checksum_path(index_path);
  if (shard.has_checksums && path_exists(checksums) &&
      xxh3_64(as_bytes(read_file(checksums, kNoLimit))) != shard.checksum_digest) {
    return "its checksums are not those that were prepared; prepare the dataset again";
  }
  return "";
}

}  // namespace energon
