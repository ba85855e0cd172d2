// Strings and integers.

#include <string>

#include <fmt/format.h>

#include "media/data/documents.h"
#include "tests/fuzz/media/checked_value.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  const ByteView encoded = std::as_bytes(std::span(data, size));
  fuzz::try_to_read([&] { fuzz::require(decode_text(encoded) == as_text(encoded)); });
  return fuzz::try_to_read([&] {
    const std::int64_t number = decode_integer(encoded);
    const std::string written = fmt::format(" {}\n", number);
    fuzz::require(decode_integer(as_bytes(written)) == number);
  });
}
