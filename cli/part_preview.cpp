#include "cli/part_preview.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/media_header.h"
#include "cli/output.h"
#include "io/error.h"

namespace energon::cli {
namespace {

constexpr std::size_t kShownBytes = 400;
constexpr std::size_t kShownLines = 20;
constexpr std::size_t kLongestJson = 1 << 16;

std::string_view extension(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// Shortened to what fits on a screen; control characters and broken bytes escaped.
std::string shown_text(std::string_view text) {
  const bool is_cut = text.size() > kShownBytes;
  std::size_t end = std::min(text.size(), kShownBytes);
  while (is_cut && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;  // not in the middle of a character
  }
  const std::vector<std::string_view> lines = split_lines(text.substr(0, end));
  std::string shown;
  for (std::size_t i = 0; i < lines.size() && i < kShownLines; ++i) {
    shown += (lines.size() > 1 ? "\n      " : " ") + printable(lines[i]);
  }
  return shown + (is_cut || lines.size() > kShownLines ? " …" : "");
}

// Bytes that are text to their end: no control characters but white space.
bool is_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) {
                       const auto byte = static_cast<unsigned char>(c);
                       return byte >= 0x20 ? byte != 0x7F
                                           : (byte == '\n' || byte == '\r' || byte == '\t');
                     }) &&
         printable(text).find("\\x") == std::string::npos;
}

std::string describe_content(std::string_view name, ByteView bytes) {
  if (const auto media = describe_media(bytes)) {
    return *media;
  }
  const std::string_view text = as_text(bytes);
  if (extension(name) == "json" && text.size() <= kLongestJson) {
    const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!json.is_discarded()) {
      return "json" +
             shown_text(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    return "not valid JSON:" + shown_text(text);
  }
  const std::string_view beginning = text.substr(0, kShownBytes * 2);
  if (text.size() <= beginning.size() && is_text(text)) {
    return "text" + shown_text(text);
  }
  if (is_text(beginning.substr(0, kShownBytes / 2))) {
    return "text" + shown_text(beginning);
  }
  return "binary";
}

}  // namespace

std::string preview_part(std::string_view name, ByteView bytes) {
  return fmt::format("  {}: {}, {}", printable(name),
                     plural(static_cast<std::int64_t>(bytes.size()), "byte"),
                     bytes.empty() ? "empty" : describe_content(name, bytes));
}

}  // namespace energon::cli
