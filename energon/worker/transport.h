// Samples as bytes: how a batch crosses from a worker to the parent.
//
// The structure (keys, names, numbers, texts, restore key) is encoded; payloads (bytes and tensors)
// are not copied but named by slot and range. Not a stable format: both sides are one build.

#pragma once

#include <cstdint>
#include <span>

#include "energon/sample/sample.h"
#include "energon/state/byte_codec.h"
#include "io/bytes.h"
#include "io/error.h"

namespace energon {

/// A range of one of the slots that travel with an encoded sample.
struct PayloadPlace {
  std::uint32_t slot = 0;
  std::uint64_t offset = 0;
};

/// Decides where the payloads of a sample lie.
class PayloadPlacer {
 public:
  virtual ~PayloadPlacer() = default;
  virtual PayloadPlace place(const SharedBytes& payload) = 0;
};

/// Appends the sample to `writer`. Throws Error (kInvalidArgument) that names the field if there
/// are lazy bytes in it, what `placer` throws, kResourceExhausted as ByteWriter.
void encode_sample(const Sample& sample, PayloadPlacer& placer, ByteWriter& writer);

/// The sample again; its payloads view `slots` and keep them alive. Every length and range is
/// checked before use: Error (kCorruptData).
Sample decode_sample(std::string_view encoded, std::span<const SharedBytes> slots);

/// An Error as bytes and back, so that a failure in a worker is rethrown in the parent.
std::string encode_error(const Error& error);
Error decode_error(std::string_view encoded);

}  // namespace energon
