// Encodes samples to send batches from a worker to the parent.
//
// The structure (keys, names, numbers, strings, restore key) is encoded. Payloads (bytes and
// tensors) are not copied but referenced by slot and range. Per-sample data (keys, sources, and the
// payloads of a list of bytes) is stored in flat arrays. Not a stable format: both sides are the
// same build.
//
// The tars that samples came from are named once per channel and then numbered (ShardNumbers).
// Failures that a policy allowed are sent in the same way, as reports.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "energon/sample/sample.h"
#include "energon/stage/failure.h"
#include "io/byte_codec.h"
#include "io/bytes.h"

namespace energon {

// Numbers for the tars and JSONL files that samples came from, so that a channel names each of them
// once and not in every batch.
//
// The sender numbers shards in the order in which they first occur, and sends the names of new ones
// with the batch. After 16,384 it restarts from 0, which makes the receiver forget all, so that
// memory stays bounded even if a user creates a shard for each sample.

/// The sender's side. Not thread-safe.
class ShardNumbers {
 public:
  /// Numbers and appends the shards of `sources` that have no number yet. Throws Error
  /// (kInvalidArgument) if a source has no shard.
  void encode_new(std::span<const SampleSource> sources, ByteWriter& writer);

  /// The number of a shard of the last encode_new().
  std::uint32_t of(const SampleSource& source) const;

 private:
  std::uint32_t number(const std::shared_ptr<const SourceShard>& shard);

  std::unordered_map<const SourceShard*, std::uint32_t> numbers_;
  std::vector<std::shared_ptr<const SourceShard>> shards_;  // by number; keeps addresses in use
  // Neighbors usually come from the same shard.
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

/// The start of a payload in one of the slots that are sent with an encoded sample.
struct PayloadPlace {
  std::uint32_t slot = 0;
  std::uint64_t offset = 0;
};

/// Decides where the payloads of a sample are placed.
class PayloadPlacer {
 public:
  virtual ~PayloadPlacer() = default;
  virtual PayloadPlace place(const SharedBytes& payload) = 0;
};

/// Appends the sample to `writer`. Omits the names of shards that have a number in `shards`, if
/// set. Throws what `placer` throws, and Error: kInvalidArgument that names the field if it
/// contains lazy bytes, kResourceExhausted like ByteWriter::text().
void encode_sample(const Sample& sample, PayloadPlacer& placer, ShardNumbers& shards,
                   ByteWriter& writer);
void encode_sample(const Sample& sample, PayloadPlacer& placer, ByteWriter& writer);

/// Decodes a sample, whose payloads view `slots` and keep them alive. Checks every length and range
/// before use. `shards` are the shards named by previous samples. Throws Error (kCorruptData).
Sample decode_sample(std::string_view encoded, std::span<const SharedBytes> slots,
                     NumberedShards& shards);
Sample decode_sample(std::string_view encoded, std::span<const SharedBytes> slots);

/// Encodes the reports as messages of at most about 256 KiB, in order. A report with too many
/// samples is split into several reports, each with a part of the samples. Strings are cut to 64
/// KiB. A detail is sent whole, with the first part, and dropped if it exceeds
/// kMaxErrorDetailBytes. A message may exceed 256 KiB by the detail at its end.
std::vector<std::string> encode_reports(std::span<const FailureReport> reports);

/// Decodes one message. Checks every length before use. Throws Error (kCorruptData).
std::vector<FailureReport> decode_reports(std::string_view message);

}  // namespace energon
