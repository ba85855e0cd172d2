// Safetensors: arbitrary bytes, or a valid length before a header of arbitrary bytes.

#include <cstring>
#include <memory>
#include <string>

#include "media/data/documents.h"
#include "tests/fuzz/media/checked_value.h"
#include "tests/fuzz/media/choices.h"
#include "tests/fuzz/media/exact_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  fuzz::Choices choices(data, size);
  const bool is_header = choices.yes();
  const std::size_t tensor_bytes = choices.below(65);
  auto encoded = std::make_shared<std::string>(as_text(choices.rest()));
  if (is_header) {
    const std::uint64_t length = encoded->size();
    std::string begin(sizeof length, '\0');
    std::memcpy(begin.data(), &length, sizeof length);
    *encoded = begin + *encoded + std::string(tensor_bytes, '\x11');
  }
  return fuzz::try_to_read([&] {
    fuzz::ExactMemory memory;
    const SharedBytes bytes = {.view = as_bytes(*encoded), .owner = encoded};
    fuzz::check_value(decode_safetensors(bytes, fuzz::kFuzzLimits, memory));
  });
}
