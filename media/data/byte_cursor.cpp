#include "media/data/byte_cursor.h"

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

ByteView ByteCursor::take(std::uint64_t count, const char* what) {
  if (count > left()) {
    fail_cut(count, what);
  }
  const ByteView result = bytes_.subspan(position_, static_cast<std::size_t>(count));
  position_ += result.size();
  return result;
}

std::uint8_t ByteCursor::peek(const char* what) const {
  if (at_end()) {
    fail_cut(1, what);
  }
  return std::to_integer<std::uint8_t>(bytes_[position_]);
}

void ByteCursor::expect_end() const {
  if (!at_end()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("{} ends at byte {}, but {} bytes follow", format_, position_, left()));
  }
}

void ByteCursor::fail_cut(std::uint64_t count, const char* what) const {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("{} is cut: {} at byte {} takes {} bytes, {} are left", format_, what,
                          position_, count, left()));
}

}  // namespace energon
