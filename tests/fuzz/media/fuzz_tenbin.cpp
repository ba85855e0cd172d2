// Lists of arrays in WebDataset's tenbin.

#include "media/data/documents.h"
#include "tests/fuzz/media/checked_value.h"
#include "tests/fuzz/media/exact_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  return fuzz::try_to_read([&] {
    fuzz::ExactMemory memory;
    fuzz::check_value(decode_tenbin(std::as_bytes(std::span(data, size)), memory));
  });
}
