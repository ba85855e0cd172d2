#include "io/dataset/split_config.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "io/dataset/yaml_value.h"
#include "io/error.h"
#include "io/file.h"

namespace energon {
namespace {

[[noreturn]] void fail_split(const std::string& problem, const std::string& path) {
  throw Error(ErrorCode::kInvalidArgument, problem,
              path.empty() ? ErrorContext{} : ErrorContext{.path = path});
}

std::vector<std::string> read_strings(const YamlValue& value) {
  std::vector<std::string> result;
  if (value.is_null()) {
    return result;  // "exclude:" with nothing after it
  }
  for (const YamlValue& item : value.list()) {
    result.push_back(item.text());
  }
  return result;
}

SplitConfig from_yaml(const YamlValue& root) {
  if (!root.is_map()) {
    root.fail("must be a mapping with split_parts");
  }
  SplitConfig config;
  bool has_parts = false;
  for (const auto& [key, value] : root.entries()) {
    if (key == "exclude") {
      config.exclude = read_strings(value);
    } else if (key == "split_parts") {
      has_parts = true;
      if (!value.is_map()) {
        value.fail("must map part names to lists of shards");
      }
      for (const auto& [name, shards] : value.entries()) {
        config.parts.push_back({name, read_strings(shards)});
      }
    } else {
      value.fail(key == "splits" ? "belongs into a metadataset; a split file has split_parts"
                                 : "is not a known key (split_parts, exclude)");
    }
  }
  if (!has_parts) {
    root.fail("has no split_parts");
  }
  return config;
}

// Plain or quoted as PyYAML chooses. In doubt the text is quoted, which reads the same.
std::string yaml_scalar(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./{},+=@()[]\\";
  constexpr std::string_view kPlainFirst =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/\\(";
  const bool starts_plain = !text.empty() && (kPlainFirst.find(text[0]) != std::string_view::npos ||
                                              // a number followed by a suffix is a string
                                              (std::isdigit(static_cast<unsigned char>(text[0])) &&
                                               text.find_first_of("/tgz") != std::string::npos));
  static const std::unordered_set<std::string> kWords = {"y",   "n",    "yes",   "no",  "on",
                                                         "off", "true", "false", "null"};
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (starts_plain && text.find_first_not_of(kPlain) == std::string::npos &&
      !kWords.contains(lower)) {
    return text;
  }
  const bool has_control =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
  std::string out;
  if (!has_control) {
    for (const char c : text) {
      out += c == '\'' ? std::string("''") : std::string(1, c);
    }
    return fmt::format("'{}'", out);
  }
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02X}", byte);
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else {
      out += c;
    }
  }
  return fmt::format("\"{}\"", out);
}

void append_list(std::string& out, const std::string& key, const std::vector<std::string>& items,
                 std::string_view indent) {
  if (items.empty()) {
    out += fmt::format("{}{}: []\n", indent, key);
    return;
  }
  out += fmt::format("{}{}:\n", indent, key);
  for (const std::string& item : items) {
    out += fmt::format("{}- {}\n", indent, yaml_scalar(item));
  }
}

// The number of "\uXXXX" at `at`, if there is one.
std::optional<unsigned> unicode_escape(std::string_view text, std::size_t at) {
  constexpr std::size_t kEscapeBytes = 6;
  if (text.size() - at < kEscapeBytes || !text.substr(at).starts_with("\\u")) {
    return std::nullopt;
  }
  unsigned value = 0;
  const char* const end = text.data() + at + kEscapeBytes;
  const auto [stop, error] = std::from_chars(text.data() + at + 2, end, value, 16);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// JSON writes a character above U+FFFF as two escapes, which YAML takes for two characters. Each
// such pair is replaced with the bytes of its character.
std::string join_surrogates(std::string_view text, const std::string& path) {
  constexpr unsigned kHigh = 0xD800;
  constexpr unsigned kLow = 0xDC00;
  constexpr unsigned kEnd = 0xE000;
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = text[i] == '\\' ? unicode_escape(text, i) : std::nullopt;
    if (!first || *first < kHigh || *first >= kEnd) {
      const std::size_t taken = text[i] == '\\' ? 2 : 1;  // so that "\\u" is no escape
      out += text.substr(i, taken);
      i += taken;
      continue;
    }
    const auto second = unicode_escape(text, std::min(i + 6, text.size()));
    if (*first >= kLow || !second || *second < kLow || *second >= kEnd) {
      fail_split(fmt::format("the escape {} at byte {} is half of a character; it comes in pairs",
                             text.substr(i, 6), i),
                 path);
    }
    const unsigned code = 0x10000 + ((*first - kHigh) << 10) + (*second - kLow);
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
    i += 12;
  }
  return out;
}

}  // namespace

SplitConfig parse_split_yaml(const std::string& text, const std::string& path) {
  return from_yaml(YamlValue::parse(text, path));
}

SplitConfig parse_split_json(const std::string& text, const std::string& path) {
  // JSON is YAML, but the reverse must not pass for JSON.
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') {
    fail_split("not a JSON object", path);
  }
  return parse_split_yaml(join_surrogates(text, path), path);
}

std::optional<SplitConfig> parse_as_written(const std::string& text) {
  SplitConfig config;
  std::vector<std::string>* list = nullptr;  // that lines with a dash belong to
  std::set<std::string_view> names;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    constexpr std::string_view kNone = ": []";
    if (line.starts_with("exclude:")) {
      list = &config.exclude;
    } else if (list != nullptr && line.starts_with("- ")) {
      list->emplace_back(line.substr(2));
    } else if (list != nullptr && line.starts_with("  - ")) {
      list->emplace_back(line.substr(4));
    } else if (line.starts_with("  ") && (line.ends_with(':') || line.ends_with(kNone))) {
      const std::string_view name = line.substr(2, line.rfind(':') - 2);
      if (!names.insert(name).second) {
        return std::nullopt;  // an error of the parser
      }
      config.parts.push_back({.name = std::string(name), .patterns = {}});
      list = line.ends_with(':') ? &config.parts.back().patterns : nullptr;
    } else if (line != "split_parts:") {
      return std::nullopt;
    }
  }
  return to_split_yaml(config) == text ? std::optional(std::move(config)) : std::nullopt;
}

SplitConfig read_split_config(const std::string& meta_folder,
                              const std::optional<std::string>& name) {
  constexpr std::uint64_t kLimitBytes = std::uint64_t{1} << 30;
  std::string path = fmt::format("{}/{}", meta_folder, name.value_or("split.yaml"));
  if (!name) {
    if (const auto text = read_if_there(path, kLimitBytes)) {
      auto written = parse_as_written(*text);
      return written ? *std::move(written) : parse_split_yaml(*text, path);
    }
    const std::string json_path = meta_folder + "/split.json";
    path = path_exists(json_path) ? json_path : path;
  }
  if (path.ends_with(".yaml")) {
    return parse_split_yaml(read_file(path, kLimitBytes), path);
  }
  if (path.ends_with(".json")) {
    return parse_split_json(read_file(path, kLimitBytes), path);
  }
  fail_split("the name of a split file must end in .yaml or .json", path);
}

std::string to_split_yaml(const SplitConfig& config) {
  std::string out = config.parts.empty() ? "split_parts: {}\n" : "split_parts:\n";
  for (const SplitConfig::Part& part : config.parts) {
    append_list(out, yaml_scalar(part.name), part.patterns, "  ");
  }
  append_list(out, "exclude", config.exclude, "");
  return out;
}

}  // namespace energon
