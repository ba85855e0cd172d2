// Decoders that write a tensor into memory of the caller, so that samples are decoded directly into
// their rows of a batch.

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

/// The type and shape of a decoded tensor.
struct TensorSpec {
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> shape = {};

  bool operator==(const TensorSpec&) const = default;
};

/// Thread-safe: contains only options. Errors describe what is wrong with the data and where; the
/// caller adds sample and part.
class TensorDecoder {
 public:
  virtual ~TensorDecoder() = default;

  /// Reads no more than the shape requires. Throws Error: kCorruptData for damaged data,
  /// kUnsupported for unsupported data, kResourceExhausted above a limit.
  virtual TensorSpec probe(ByteView encoded) const = 0;

  /// Writes the tensor that probe() describes. `to` must have exactly its bytes and be aligned for
  /// the dtype. Throws Error as probe(); the content of `to` is then unspecified.
  virtual void decode_into(ByteView encoded, std::span<std::byte> to) const = 0;

  /// Decodes into new memory.
  Tensor decode(ByteView encoded, BufferAllocator& memory) const {
    TensorSpec spec = probe(encoded);
    NewTensor result = new_tensor(spec.dtype, std::move(spec.shape), memory);
    decode_into(encoded, result.bytes);
    return std::move(result.tensor);
  }
};

}  // namespace energon
