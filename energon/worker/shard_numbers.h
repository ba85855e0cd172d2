// Numbers for the tars and JSONL files that samples came from, so that a channel names each of them
// once and not in every batch.
//
// The sender numbers shards in the order in which they first occur, and sends the names of new ones
// with the batch. When it has numbered 16,384 it begins again from 0, which tells the receiver to
// forget all, so that shards which a user makes for each sample take no growing memory.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "energon/sample/sample.h"
#include "energon/state/byte_codec.h"

namespace energon {

/// The sender's side. Not thread-safe.
class ShardNumbers {
 public:
  /// Appends the shards of `sources` that have no number yet, and gives them one. Throws Error
  /// (kInvalidArgument) if a source has no shard.
  void encode_new(std::span<const SampleSource> sources, ByteWriter& writer);

  /// The number of a shard of the last encode_new().
  std::uint32_t of(const SampleSource& source) const;

 private:
  std::uint32_t number(const std::shared_ptr<const SourceShard>& shard);

  std::unordered_map<const SourceShard*, std::uint32_t> numbers_;
  std::vector<std::shared_ptr<const SourceShard>> shards_;  // by number; keeps addresses in use
  // Neighbours usually come from one shard.
  mutable const SourceShard* last_ = nullptr;
  mutable std::uint32_t last_number_ = 0;
};

/// The receiver's side. Not thread-safe.
class NumberedShards {
 public:
  /// Reads what ShardNumbers::encode_new() wrote. Throws Error (kCorruptData).
  void decode_new(ByteReader& reader);

  /// The shard with this number. Throws Error (kCorruptData) if there is none.
  const std::shared_ptr<const SourceShard>& at(std::uint32_t number, ByteReader& reader) const;

 private:
  std::vector<std::shared_ptr<const SourceShard>> shards_;
};

}  // namespace energon
