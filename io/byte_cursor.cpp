#include "io/byte_cursor.h"

#include <memory>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

void MemoryLimit::check(std::string_view what, std::uint64_t needed) const {
  if (needed > bytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("{} would take {} bytes, the limit is {}{}", what, needed, bytes,
                            option.empty() ? "" : fmt::format(" ({})", option)));
  }
}

std::size_t utf8_length(std::string_view text) {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) {
    return 1;
  }
  if (first < 0xC2 || first > 0xF4) {
    return 0;
  }
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) {
    return 0;
  }
  const unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (at(1) < least || at(1) > most) {
    return 0;
  }
  for (std::size_t i = 2; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  return length;
}

std::string utf8_text(ByteView bytes, std::string_view what, std::size_t position) {
  const std::string_view text = as_text(bytes);
  for (std::size_t i = 0; i < text.size();) {
    std::uint64_t eight = 0;
    if (text.size() - i >= sizeof eight) {
      std::memcpy(&eight, text.data() + i, sizeof eight);
      if ((eight & 0x8080808080808080U) == 0) {  // ASCII
        i += sizeof eight;
        continue;
      }
    }
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("{} is not UTF-8: byte {} is 0x{:02x}, which does not begin a character",
                      what, position + i, static_cast<unsigned char>(text[i])));
    }
    i += length;
  }
  return std::string(text);
}

SharedBytes copy_of(ByteView bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return {.view = *owner, .owner = owner};
}

ByteView ByteCursor::take(std::uint64_t count, const char* what) {
  if (count > left()) {
    fail_cut(count, what);
  }
  const ByteView result = bytes_.subspan(position_, static_cast<std::size_t>(count));
  position_ += result.size();
  return result;
}

std::string ByteCursor::text(std::uint64_t count, const char* what) {
  const std::size_t begin = position_;
  return utf8_text(take(count, what), what, begin);
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
