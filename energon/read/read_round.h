// Reads that are done together: all the tars that they need are open at the same time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "energon/read/read_helper.h"
#include "energon/read/shard_cache.h"
#include "io/file.h"

namespace energon {

/// Collects reads, and does them when there are enough, or more tars than may stay open. Not
/// thread-safe.
class ReadRound {
 public:
  /// `helper`: null: reads alone. Both are borrowed.
  ReadRound(ShardCache& shards, ReadHelper* helper);

  /// So many bytes are waiting that they should be read before more memory is allocated.
  bool is_full() const { return bytes_ >= kMostBytes; }

  /// An open tar, valid until the next call of a member function but add(). Ask for all of one
  /// tar together. Throws Error as ShardCache::tar(), and for reads that were done to make room.
  const FileSource& tar(std::int64_t shard);
  /// `tar` is the one that tar() returned last.
  void add(const FileSource& tar, std::uint64_t offset, std::span<std::byte> out);

  /// Does the reads that were added. Throws Error as FileSource::read_at().
  void finish();

 private:
  // As many bytes are read with one waking of the helper. Not all of a batch, so that buffers which
  // the trainer gives back meanwhile are used.
  static constexpr std::size_t kMostBytes = 2 * ReadHelper::kLeastBytes;

  ShardCache& shards_;
  ReadHelper* const helper_;
  std::vector<FileRead> reads_;
  std::size_t bytes_ = 0;
  std::size_t tars_ = 0;    // that were asked for since the last reads
  std::int64_t last_ = -1;  // of them
};

}  // namespace energon
