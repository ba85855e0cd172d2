#include "media/data/utf8.h"

#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

// The second byte of a character may lie in [low, high], later ones in [0x80, 0xBF].
struct Utf8Lead {
  std::size_t length = 0;  // 0: no character begins so
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
};

Utf8Lead utf8_lead(unsigned char byte) {
  if (byte < 0x80) {
    return {1};
  }
  if (byte >= 0xC2 && byte <= 0xDF) {
    return {2};
  }
  if (byte >= 0xE0 && byte <= 0xEF) {
    return {3, static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte >= 0xF0 && byte <= 0xF4) {
    return {4, static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {0};
}

// Whether the first eight bytes of `text` are ASCII.
bool begins_with_ascii(std::string_view text) {
  std::uint64_t bytes = 0;
  if (text.size() < sizeof bytes) {
    return false;
  }
  std::memcpy(&bytes, text.data(), sizeof bytes);
  return (bytes & 0x8080808080808080U) == 0;
}

}  // namespace

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (begins_with_ascii(text.substr(at))) {
      at += sizeof(std::uint64_t);
      continue;
    }
    const Utf8Lead lead = utf8_lead(static_cast<unsigned char>(text[at]));
    if (lead.length == 0 || lead.length > text.size() - at) {
      return at;
    }
    for (std::size_t i = 1; i < lead.length; ++i) {
      const auto byte = static_cast<unsigned char>(text[at + i]);
      if (byte < (i == 1 ? lead.low : 0x80) || byte > (i == 1 ? lead.high : 0xBF)) {
        return at;
      }
    }
    at += lead.length;
  }
  return at;
}

std::string utf8_text(ByteView bytes, const char* what, std::size_t position) {
  const std::string_view text = as_text(bytes);
  const std::size_t valid = valid_utf8_prefix(text);
  if (valid != text.size()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("{} is not UTF-8: byte {} is 0x{:02x}, with which no character goes on",
                            what, position + valid, static_cast<unsigned char>(text[valid])));
  }
  return std::string(text);
}

}  // namespace energon
