#include "io/dataset/summarized_shards.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/dataset/shard_opening.h"
#include "io/error.h"
#include "io/index/checksum_file.h"
#include "io/index/tar_index.h"
#include "io/tar/compression.h"

namespace energon {
namespace {

// What a check at the first read needs of them.
OpenOptions options_of_checks(const OpenOptions& options) {
  return {.needs_checksums = options.needs_checksums, .cache_dir = options.cache_dir};
}

}  // namespace

std::shared_ptr<const SummarizedShards> SummarizedShards::find(const std::string& folder,
                                                               std::string_view info_text,
                                                               const OpenOptions& options) {
  if (!may_check_later(options)) {
    return nullptr;
  }
  auto summary = load_shard_summary(folder + "/.nv-meta", info_text);
  // Where compressed shards are expanded is known when they are. Without checksums that are there
  // but not needed, a state has other digests.
  const auto needs_look = [&](const SummarizedShard& shard) {
    return compression_of_name(shard.record.name) != Compression::kNone ||
           (shard.has_checksums && !options.needs_checksums);
  };
  if (!summary || std::any_of(summary->shards.begin(), summary->shards.end(), needs_look)) {
    return nullptr;
  }
  return std::make_shared<const SummarizedShards>(folder, options, std::move(summary));
}

SummarizedShards::SummarizedShards(std::string folder, const OpenOptions& options,
                                   std::shared_ptr<const ShardSummary> summary)
    : folder_(std::move(folder)),
      options_(options_of_checks(options)),
      summary_(std::move(summary)),
      positions_(summary_->shards.size()) {
  for (std::size_t i = 0; i < summary_->shards.size(); ++i) {
    positions_.emplace(summary_->shards[i].record.name, i);
  }
}

DatasetInfo SummarizedShards::info() const {
  DatasetInfo info;
  info.shards.reserve(summary_->shards.size());
  for (const SummarizedShard& shard : summary_->shards) {
    info.shards.push_back({shard.record.name, shard.sample_count});
  }
  return info;
}

void SummarizedShards::open(ShardSet& set, const OpenOptions& options) const {
  ShardWarnings warnings(set);
  std::vector<bool> seen(summary_->shards.size());
  for (std::size_t i = 0; i < set.shards.size(); ++i) {
    const std::size_t position = positions_.at(set.shards[i].name);
    const SummarizedShard& shard = summary_->shards[position];
    set.shards[i] = describe(shard);
    if (auto odd = missing_end(shard.end_offset, shard.record.size_bytes)) {
      warnings.of(i).push_back(std::move(*odd));
    }
    if (seen[position]) {
      warnings.of(i).push_back("it is listed twice; its samples come twice in every epoch");
    }
    seen[position] = true;
  }
  warnings.append_to(set.warnings);
  set.check = [self = shared_from_this()](const ShardFile& shard) { return self->check(shard); };
  if (options.progress) {
    const auto total = static_cast<std::int64_t>(set.shards.size());
    options.progress({.shards_done = total, .shards_total = total});
  }
}

ShardFile SummarizedShards::describe(const SummarizedShard& shard) const {
  ShardFile file{.name = shard.record.name,
                 .tar_path = folder_ + "/" + shard.record.name,
                 .index_digest = shard.record.index_digest,
                 .sample_count = shard.sample_count,
                 .tar_size = shard.record.size_bytes,
                 .is_checked = false};
  file.index_path = tar_index_path(file.tar_path);
  if (shard.has_checksums) {
    file.checksum_path = checksum_path(file.index_path);
    file.checksum_digest = shard.checksum_digest;
  }
  return file;
}

ShardFile SummarizedShards::check(const ShardFile& shard) const {
  const SummarizedShard& known = summary_->shards[positions_.at(shard.name)];
  ShardFile file{.name = shard.name};
  open_shard(file, known.sample_count, folder_, &known.record, options_);
  check_has_checksums(file, known.has_checksums, options_);
  file.checksum_digest = shard.checksum_digest;
  return file;
}

}  // namespace energon
