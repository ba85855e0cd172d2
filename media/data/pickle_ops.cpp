#include "media/data/pickle_ops.h"

#include <bit>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

std::int64_t read_pickle_long(ByteCursor& cursor) {
  const std::size_t size = cursor.number<std::uint8_t, std::endian::little>("a length");
  const ByteView bytes = cursor.take(size, "a number");
  if (size > sizeof(std::int64_t)) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a number of {} bytes is outside of int64 [-2^63, 2^63)", size));
  }
  const bool is_negative = size > 0 && (bytes[size - 1] & std::byte{0x80}) != std::byte{0};
  std::uint64_t bits = is_negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = size; i > 0; --i) {
    bits = bits << 8 | std::to_integer<std::uint64_t>(bytes[i - 1]);
  }
  return static_cast<std::int64_t>(bits);
}

std::string read_pickle_line(ByteCursor& cursor) {
  std::string result;
  while (true) {
    const auto byte = cursor.number<std::uint8_t, std::endian::little>("a name");
    if (byte == '\n') {
      return result;
    }
    result += static_cast<char>(byte);
  }
}

}  // namespace energon
