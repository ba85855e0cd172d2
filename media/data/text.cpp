#include "media/data/text.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

// --- UTF-8 ---

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

/// Bytes before the first one that is not part of a well-formed character, as RFC 3629 and table
/// 3-7 of the Unicode standard define it: no overlong forms, no surrogates, nothing above U+10FFFF;
/// text.size() if there is none. Thread-safe.
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

}  // namespace

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

// --- Texts and numbers ---

namespace {

constexpr std::size_t kShownCharacters = 40;

bool is_decimal_digit(char character) { return character >= '0' && character <= '9'; }

std::string_view without_white_space(std::string_view text) {
  constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) - begin + 1);
}

std::string beginning_of(std::string_view text) {
  return printable(text.substr(0, kShownCharacters)) +
         (text.size() > kShownCharacters ? "..." : "");
}

// '-' and the digits, without '+' and underscores; empty if `text` is no number.
std::string plain_digits(std::string_view text) {
  std::string result;
  if (text.starts_with('+') || text.starts_with('-')) {
    if (text.front() == '-') {
      result = "-";
    }
    text.remove_prefix(1);
  }
  bool is_after_digit = false;
  for (const char character : text) {
    if (is_decimal_digit(character)) {
      result += character;
    } else if (character != '_' || !is_after_digit) {
      return {};
    }
    is_after_digit = is_decimal_digit(character);
  }
  return is_after_digit ? result : std::string();
}

}  // namespace

std::string decode_text(ByteView encoded) { return utf8_text(encoded, "the text", 0); }

std::int64_t decode_integer(ByteView encoded) {
  const std::string_view text = without_white_space(as_text(encoded));
  const std::string digits = plain_digits(text);
  if (digits.empty()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("'{}' is no whole number: expected digits such as 17 or -3",
                            beginning_of(as_text(encoded))));
  }
  std::int64_t result = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), result);
  if (parsed.ec != std::errc()) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the number {} is outside of int64 [-2^63, 2^63); read it as a text",
                            beginning_of(text)));
  }
  return result;
}

}  // namespace energon
