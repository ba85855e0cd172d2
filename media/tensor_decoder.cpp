#include "media/tensor_decoder.h"

#include <utility>

namespace energon {

Tensor TensorDecoder::decode(ByteView encoded, BufferAllocator& memory) const {
  TensorSpec spec = probe(encoded);
  NewTensor result = new_tensor(spec.dtype, std::move(spec.shape), memory);
  decode_into(encoded, result.bytes);
  return std::move(result.tensor);
}

}  // namespace energon
