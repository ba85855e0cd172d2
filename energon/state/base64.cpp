#include "energon/state/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace energon {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNoDigit = 64;

constexpr std::array<std::uint8_t, 256> digit_values() {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (std::size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<std::uint8_t>(kDigits[i])] = static_cast<std::uint8_t>(i);
  }
  return values;
}

constexpr auto kValues = digit_values();

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (k < group.size() ? static_cast<std::uint8_t>(group[k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= group.size() ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const std::string_view group = text.substr(i, 4);
    const std::size_t digits = std::min(group.find('='), group.size());
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < digits; ++k) {
      const std::uint8_t value = kValues[static_cast<std::uint8_t>(group[k])];
      if (value == kNoDigit) {
        return std::nullopt;
      }
      bits |= std::uint32_t{value} << (18 - 6 * k);
    }
    for (std::size_t k = 0; k + 1 < digits; ++k) {
      bytes += static_cast<char>(bits >> (16 - 8 * k) & 255);
    }
  }
  // What padding and unused bits may look like, and that padding is at the end, is said once: as
  // to_base64() writes it.
  return to_base64(bytes) == text ? std::optional(std::move(bytes)) : std::nullopt;
}

}  // namespace energon
