// Encodes samples to send batches from a worker to the parent.
//
// The structure (keys, names, numbers, texts, restore key) is encoded. Payloads (bytes and tensors)
// are not copied but referenced by slot and range. What a batch has once for each sample is in flat
// arrays: keys, sources, and the payloads of a list of bytes. Not a stable format: both sides are
// the same build.

#pragma once

#include <cstdint>
#include <span>

#include "energon/sample/sample.h"
#include "energon/state/byte_codec.h"
#include "energon/worker/shard_numbers.h"
#include "io/bytes.h"

namespace energon {

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

}  // namespace energon
