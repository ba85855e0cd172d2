// NumPy arrays, one per file, checked by a round trip.

#include <string>
#include <vector>

#include "media/data/documents.h"
#include "tests/fuzz/media/checked_value.h"
#include "tests/fuzz/media/exact_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  const ByteView encoded = std::as_bytes(std::span(data, size));
  const NpyDecoder decoder(fuzz::kFuzzLimits);
  return fuzz::try_to_read([&] {
    const TensorSpec spec = decoder.probe(encoded);
    const std::vector<std::byte> bytes = fuzz::decode_checked(decoder, encoded, spec);
    fuzz::ExactMemory memory;
    const Tensor tensor = decoder.decode(encoded, memory);
    fuzz::check_tensor(tensor);
    fuzz::require(spec == TensorSpec{tensor.dtype, tensor.shape});
    fuzz::require(std::ranges::equal(bytes, tensor.data.view));
    const std::string written = encode_npy(tensor);
    bool is_same = false;
    try {
      is_same = fuzz::same_tensor(decoder.decode(as_bytes(written), memory), tensor);
    } catch (const Error&) {
    }
    fuzz::require(is_same);
  });
}
