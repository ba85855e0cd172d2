// Encodes samples to send batches from a worker to the parent.
//
// The structure (keys, names, numbers, texts, restore key) is encoded. Payloads (bytes and tensors)
// are not copied but referenced by slot and range. What a batch has once for each sample is in flat
// arrays: keys, sources, and the payloads of a list of bytes. Not a stable format: both sides are
// the same build.
//
// The tars that samples came from are named once per channel and then numbered (ShardNumbers).
// Failures that a policy let pass go the same way, as reports.

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
#include "energon/state/byte_codec.h"
#include "io/bytes.h"

namespace energon {

// Numbers for the tars and JSONL files that samples came from, so that a channel names each of them
// once and not in every batch.
//
// The sender numbers shards in the order in which they first occur, and sends the names of new ones
// with the batch. When it has numbered 16,384 it begins again from 0, which tells the receiver to
// forget all, so that shards which a user makes for each sample take no growing memory.

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
  // Neighbors usually come from one shard.
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

/// Appends the sample to `writer`. Throws what `placer` throws, and Error: kInvalidArgument that
/// names the field if it contains lazy bytes, kResourceExhausted as ByteWriter::text(). Names of
/// shards that have a number in `shards` are left out; without `shards`, none are.
void encode_sample(const Sample& sample, PayloadPlacer& placer, ShardNumbers& shards,
                   ByteWriter& writer);
void encode_sample(const Sample& sample, PayloadPlacer& placer, ByteWriter& writer);

/// Decodes a sample, whose payloads view `slots` and keep them alive. Checks every length and range
/// before use. `shards` are those that the samples before it have named. Throws Error
/// (kCorruptData).
Sample decode_sample(std::string_view encoded, std::span<const SharedBytes> slots,
                     NumberedShards& shards);
Sample decode_sample(std::string_view encoded, std::span<const SharedBytes> slots);

/// Encodes the reports as messages of at most about 256 KiB, in order. A report with too many
/// samples is split into several reports, each with a part of the samples. Texts are cut to 64 KiB.
/// A detail crosses with the first part, whole: one of more than kMaxErrorDetailBytes is left out.
/// A message is longer by the detail that it ends with.
std::vector<std::string> encode_reports(std::span<const FailureReport> reports);

/// Decodes one message. Checks every length before use. Throws Error (kCorruptData).
std::vector<FailureReport> decode_reports(std::string_view message);

}  // namespace energon
