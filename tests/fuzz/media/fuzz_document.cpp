// Values as JSON, MessagePack or CBOR: ENERGON_FUZZ_DECODE names the decoder.

#include "media/data/documents.h"
#include "tests/fuzz/media/checked_value.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  return fuzz::try_to_read([&] {
    fuzz::check_value(ENERGON_FUZZ_DECODE(std::as_bytes(std::span(data, size)), fuzz::kFuzzLimits));
  });
}
