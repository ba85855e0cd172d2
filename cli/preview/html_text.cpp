#include "cli/preview/html_text.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "io/error.h"
#include "io/json.h"

namespace energon::cli {
namespace {

constexpr std::size_t kHexRow = 8;  // fits on a phone
constexpr std::size_t kHexBytes = 16 * kHexRow;
constexpr std::size_t kLookedAtBytes = 4096;

// U+202A to U+202E and U+2066 to U+2069, whose last digits follow from the third byte of their
// UTF-8. Returns 0 for any other character.
unsigned direction_mark(std::string_view text) {
  if (!text.starts_with("\xE2\x80") && !text.starts_with("\xE2\x81")) {
    return 0;
  }
  const auto third = static_cast<unsigned char>(text.size() > 2 ? text[2] : 0);
  const unsigned code =
      0x2000U | (text[1] == '\x81' ? 0x40U : 0U) | (static_cast<unsigned>(third) & 0x3FU);
  return (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) ? code : 0;
}

// For text without control characters.
void append_entities(std::string_view text, std::string& html) {
  while (!text.empty()) {
    std::size_t length = 1;
    if (const unsigned mark = direction_mark(text); mark != 0) {
      length = 3;
      html += fmt::format("\\u{:04x}", mark);
    } else if (text[0] == '&') {
      html += "&amp;";
    } else if (text[0] == '<') {
      html += "&lt;";
    } else if (text[0] == '>') {
      html += "&gt;";
    } else if (text[0] == '"') {
      html += "&quot;";
    } else if (text[0] == '\'') {
      html += "&#39;";
    } else {
      html += text[0];
    }
    text.remove_prefix(length);
  }
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string html;
  html.reserve(text.size() + text.size() / 8);
  append_entities(printable(text), html);
  return html;
}

std::string html_lines(std::string_view text) {
  std::string html;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
    html += html_text(text.substr(0, end));
    if (end < text.size()) {
      html += text[end];
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return html;
}

std::string_view whole_characters(std::string_view text, std::size_t size) {
  if (text.size() <= size) {
    return text;
  }
  for (std::size_t cut = size; cut > 0 && size - cut < 4; --cut) {
    if ((static_cast<unsigned char>(text[cut]) & 0xC0) != 0x80) {
      return text.substr(0, cut);
    }
  }
  return text.substr(0, size);  // not UTF-8
}

bool looks_like_text(std::string_view text) {
  std::string visible(whole_characters(text, kLookedAtBytes));
  std::ranges::replace_if(
      visible, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return printable(visible) == visible;
}

std::string data_uri(std::string_view mime, ByteView bytes) {
  return fmt::format("data:{};base64,{}", mime, to_base64(as_text(bytes)));
}

std::string hex_html(ByteView bytes) {
  const std::string_view text = as_text(bytes.first(std::min(bytes.size(), kHexBytes)));
  std::string html = "<pre class=\"hex\">";
  for (std::size_t row = 0; row < text.size(); row += kHexRow) {
    const std::string_view piece = text.substr(row, kHexRow);
    std::string ascii;
    html += fmt::format("{:06x} ", row);
    for (std::size_t i = 0; i < kHexRow; ++i) {
      const auto byte = static_cast<unsigned char>(i < piece.size() ? piece[i] : ' ');
      html += i < piece.size() ? fmt::format(" {:02x}", byte) : "   ";
      ascii += byte >= 0x20 && byte < 0x7F ? static_cast<char>(byte) : '.';
    }
    html += "  " + html_text(std::string_view(ascii).substr(0, piece.size())) + "\n";
  }
  return html + (bytes.size() > kHexBytes ? "…</pre>" : "</pre>");
}

}  // namespace energon::cli
