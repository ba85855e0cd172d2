#include "cli/show/part_preview.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/show/output.h"
#include "io/error.h"
#include "io/lint/media_header.h"

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

// The first `size` bytes, or one to three fewer, so that no character is cut.
std::string_view beginning_of(std::string_view text, std::size_t size) {
  if (text.size() <= size) {
    return text;
  }
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) {
    --size;
  }
  return text.substr(0, size);
}

// Shortened to what fits on a screen; control characters and broken bytes escaped.
std::string shown_text(std::string_view text) {
  const std::string_view beginning = beginning_of(text, kShownBytes);
  const std::vector<std::string_view> lines = split_lines(beginning);
  std::string shown;
  for (std::size_t i = 0; i < lines.size() && i < kShownLines; ++i) {
    shown += (lines.size() > 1 ? "\n      " : " ") + printable(lines[i]);
  }
  return shown + (beginning.size() < text.size() || lines.size() > kShownLines ? " …" : "");
}

// UTF-8 without control characters but white space.
bool is_text(std::string_view text) {
  std::string visible(text);
  std::ranges::replace_if(
      visible, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return printable(visible) == visible;
}

std::string describe_media(const MediaHeader& header) {
  const std::string channels = header.channels > 0 ? ", " + plural(header.channels, "channel") : "";
  if (header.width == 0) {
    return fmt::format("{}, {} Hz{}, {:.2f} s", header.format, header.sample_rate, channels,
                       header.seconds);
  }
  return fmt::format("{}, {} x {}{}", header.format, header.width, header.height, channels);
}

std::string describe_content(std::string_view name, ByteView bytes) {
  if (const auto header = read_media_header(bytes)) {
    return describe_media(*header);
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
  if (is_text(beginning_of(text, kShownBytes / 2))) {
    return "text" + shown_text(text.substr(0, kShownBytes * 2));
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
