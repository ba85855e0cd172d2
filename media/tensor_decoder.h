// Decoders that write a tensor into memory of the caller, so that a batch is decoded row by row
// into its place.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"

namespace energon {

/// What decoding will give.
struct TensorSpec {
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> shape = {};

  bool operator==(const TensorSpec&) const = default;
};

/// Thread-safe: holds options only. Errors say what is wrong with the data and where; the caller
/// adds sample and part.
class TensorDecoder {
 public:
  virtual ~TensorDecoder() = default;

  /// Reads as little as tells the shape. Throws Error: kCorruptData for damaged data, kUnsupported
  /// for what this decoder does not read, kResourceExhausted above a limit.
  virtual TensorSpec probe(ByteView encoded) const = 0;

  /// Writes the tensor that probe() describes. `to` must have exactly its bytes and be aligned for
  /// the dtype. After an Error, which are those of probe(), `to` has unspecified content.
  virtual void decode_into(ByteView encoded, std::span<std::byte> to) const = 0;

  /// Both, into new memory.
  Tensor decode(ByteView encoded, BufferAllocator& memory) const {
    TensorSpec spec = probe(encoded);
    NewTensor result = new_tensor(spec.dtype, std::move(spec.shape), memory);
    decode_into(encoded, result.bytes);
    return std::move(result.tensor);
  }
};

}  // namespace energon
