#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "io/byte_cursor.h"
#include "io/error.h"
#include "media/data/documents.h"

namespace energon {

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

// '-' and the digits, without '+' and underscores, or an empty string if `text` is not a number.
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
                fmt::format("'{}' is not an integer: expected digits such as 17 or -3",
                            beginning_of(as_text(encoded))));
  }
  std::int64_t result = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), result);
  if (parsed.ec != std::errc()) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the number {} is outside int64 [-2^63, 2^63); read it as a string",
                            beginning_of(text)));
  }
  return result;
}

}  // namespace energon
