#include "energon/read/shard_cache.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "io/dataset/shard_record.h"
#include "io/error.h"

namespace energon {
namespace {

OpenShard open_shard(const ShardFile& file, bool with_checksums) {
  FileSource tar(file.tar_path);
  if (tar.identity() != file.tar_identity) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the shard changed since the dataset was opened (it had {} bytes, it "
                            "has {}); prepare the "
                            "dataset again",
                            file.tar_identity.size_bytes, tar.size()),
                {.path = file.tar_path});
  }
  TarIndex index = TarIndex::load(file.index_path, tar.size());
  if (index.sample_count() != file.sample_count) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("the index has {} samples, the dataset says {}; prepare the dataset again",
                    index.sample_count(), file.sample_count),
        {.path = file.index_path});
  }
  std::optional<ChecksumFile> checksums;
  if (with_checksums && !file.checksum_path.empty()) {
    checksums = ChecksumFile::load(file.checksum_path, tar.size(), index.sample_count());
  }
  std::unique_ptr<SampleBoundaries> boundaries;
  if (file.index_digest) {
    check_recorded_index(*file.index_digest, index, file.index_path);
  } else {
    boundaries = std::make_unique<SampleBoundaries>(index.sample_count());
  }
  return {std::move(tar), std::move(index), std::move(checksums), std::move(boundaries)};
}

}  // namespace

ShardCache::ShardCache(const std::vector<ShardFile>& shards, std::size_t capacity,
                       bool with_checksums)
    : shards_(shards),
      capacity_(std::max<std::size_t>(capacity, 1)),
      with_checksums_(with_checksums) {}

const OpenShard& ShardCache::open(std::int64_t shard) {
  if (const auto found = by_shard_.find(shard); found != by_shard_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().open;
  }
  if (entries_.size() >= capacity_) {
    by_shard_.erase(entries_.back().shard);
    entries_.pop_back();
  }
  entries_.push_front(
      {shard, open_shard(shards_[static_cast<std::size_t>(shard)], with_checksums_)});
  by_shard_[shard] = entries_.begin();
  return entries_.front().open;
}

}  // namespace energon
