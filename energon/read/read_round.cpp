#include "energon/read/read_round.h"

namespace energon {

ReadRound::ReadRound(ShardCache& shards, ReadHelper* helper) : shards_(shards), helper_(helper) {
  shards_.begin_round();
}

const FileSource& ReadRound::tar(std::int64_t shard) {
  if (shard != last_ && tars_ >= shards_.capacity()) {
    finish();
  }
  if (shard != last_) {
    last_ = shard;
    ++tars_;
  }
  try {
    return shards_.tar(shard);
  } catch (const TooManyOpenFiles&) {
    if (tars_ == 1) {
      throw;
    }
  }
  finish();
  last_ = shard;
  tars_ = 1;
  return shards_.tar(shard);
}

void ReadRound::add(const FileSource& tar, std::uint64_t offset, std::span<std::byte> out) {
  reads_.push_back({&tar, offset, out});
  bytes_ += out.size();
}

void ReadRound::finish() {
  if (helper_ != nullptr) {
    helper_->read(reads_);
  } else {
    read_alone(reads_);
  }
  reads_.clear();
  bytes_ = 0;
  tars_ = 0;
  last_ = -1;
  shards_.begin_round();
}

}  // namespace energon
