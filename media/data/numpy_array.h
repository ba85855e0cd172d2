// Arrays of NumPy: .npy files (numpy.lib.format, versions 1.0 to 3.0) and the zips of them that
// numpy.savez writes, .npz.

#pragma once

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/tensor_decoder.h"

namespace energon {

/// Gives a tensor of the shape of the array, row-major. bool, int8 to int64, uint8 and float16 to
/// float64 keep their type, uint16 becomes int32, uint32 becomes int64. Column-major and big-endian
/// arrays are converted.
///
/// Errors: kCorruptData also if bytes follow the array. kUnsupported for complex numbers, texts,
/// times, structures, 64-bit unsigned integers, and objects: pickles are never read.
class NpyDecoder final : public TensorDecoder {
 public:
  explicit NpyDecoder(const DecodeLimits& limits = {}) : limits_(limits) {}

  TensorSpec probe(ByteView encoded) const override;
  void decode_into(ByteView encoded, std::span<std::byte> to) const override;

 private:
  const DecodeLimits limits_;
};

/// The arrays of an npz by name (without ".npy"), in the order of the file. Tensors lie in
/// `memory`. Members may be stored or deflated.
///
/// Thread-safe if `memory` is. Throws Error: as NpyDecoder, with the name of the array;
/// kCorruptData for a damaged zip, wrong checksums and names that come twice; kUnsupported for
/// encryption, other compression and members that are no arrays; kResourceExhausted if all members
/// together are above limits.max_bytes.
Mapping decode_npz(ByteView encoded, const DecodeLimits& limits, BufferAllocator& memory);

}  // namespace energon
