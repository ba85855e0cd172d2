#include "io/dataset/split_config.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <regex>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/dataset/brace_pattern.h"
#include "io/dataset/yaml_value.h"
#include "io/error.h"
#include "io/file.h"

namespace energon {

// --- Reading and writing ---

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
  // As in Energon: people append their own "exclude" to a file that ends with "exclude: []".
  for (const auto& [key, value] : root.entries("exclude")) {
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
      value.fail(key == "splits" ? "belongs in a metadataset; a split file has split_parts"
                                 : "is not a known key (split_parts, exclude)");
    }
  }
  if (!has_parts) {
    root.fail("has no split_parts");
  }
  return config;
}

// Plain or quoted like PyYAML. When in doubt, quotes the text, which reads the same.
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

// The value of "\uXXXX" at `at`, if there is one.
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

// JSON writes a character above U+FFFF as two escapes, which YAML reads as two characters. Replaces
// each such pair with the bytes of its character.
std::string join_surrogates(std::string_view text, const std::string& path) {
  constexpr unsigned kHigh = 0xD800;
  constexpr unsigned kLow = 0xDC00;
  constexpr unsigned kEnd = 0xE000;
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = text[i] == '\\' ? unicode_escape(text, i) : std::nullopt;
    if (!first || *first < kHigh || *first >= kEnd) {
      const std::size_t taken = text[i] == '\\' ? 2 : 1;  // so that "\\u" is not an escape
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
  // JSON is YAML, but YAML must not be accepted as JSON.
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') {
    fail_split("not a JSON object", path);
  }
  return parse_split_yaml(join_surrogates(text, path), path);
}

std::optional<SplitConfig> parse_as_written(const std::string& text) {
  SplitConfig config;
  std::vector<std::string>* list = nullptr;  // the list that lines with a dash belong to
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
        return std::nullopt;  // left to the parser, which reports it
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

// --- Selecting shards: for each part of a split, and of the part to read ---

namespace {

[[noreturn]] void fail_choice(const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, problem);
}

const SplitConfig::Part& part_named(const SplitConfig& config, const std::string& name) {
  if (config.parts.empty()) {
    fail_choice(
        fmt::format("the split file has no split parts, so it has no '{}'", printable(name)));
  }
  const auto found = std::find_if(config.parts.begin(), config.parts.end(),
                                  [&](const SplitConfig::Part& part) { return part.name == name; });
  if (found == config.parts.end()) {
    std::vector<std::string> known;
    for (const SplitConfig::Part& part : config.parts) {
      known.push_back(printable(part.name));
    }
    fail_choice(
        fmt::format("unknown split part '{}'; known: {}", printable(name), fmt::join(known, ", ")));
  }
  return *found;
}

// The regular expressions of `pattern`, one for each brace expansion.
std::vector<std::regex> regexes_of(const SplitPattern& pattern) {
  std::vector<std::regex> regexes;
  for (const std::string& text :
       expand_braces(pattern.regex, {.escapes = Escapes::kKeep, .max_results = 100'000})) {
    try {
      regexes.emplace_back(text);
    } catch (const std::regex_error& error) {
      fail_choice(fmt::format("split pattern '{}' of part '{}' is not a regular expression: {}",
                              printable(text), printable(pattern.part), error.what()));
    }
  }
  return regexes;
}

}  // namespace

SplitConfig split_by_ratio(std::span<const std::string> shards,
                           std::span<const SplitRatio> ratios) {
  double total = 0;
  std::optional<std::size_t> last_weighted;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    if (!(ratios[i].weight >= 0) || !std::isfinite(ratios[i].weight)) {
      fail_choice(fmt::format("the ratio of split part '{}' is {}, expected a number of at least 0",
                              printable(ratios[i].part), ratios[i].weight));
    }
    total += ratios[i].weight;
    last_weighted = ratios[i].weight > 0 ? std::optional(i) : last_weighted;
  }
  if (!last_weighted) {
    fail_choice("no split part has a ratio above 0");
  }
  SplitConfig config;
  double cumulative = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    cumulative += ratios[i].weight / total;
    const auto cut = static_cast<std::size_t>(static_cast<double>(shards.size()) * cumulative);
    const std::size_t end = i >= *last_weighted ? shards.size() : std::min(cut, shards.size());
    config.parts.push_back({ratios[i].part, collapse_names(shards.subspan(begin, end - begin))});
    begin = end;
  }
  return config;
}

SplitConfig split_by_pattern(std::span<const std::string> shards,
                             std::span<const SplitPattern> patterns) {
  SplitConfig config;
  for (const SplitPattern& pattern : patterns) {
    const std::vector<std::regex> regexes = regexes_of(pattern);
    std::vector<std::string> names;
    for (const std::string& shard : shards) {
      const bool matches =
          std::any_of(regexes.begin(), regexes.end(), [&](const std::regex& regex) {
            return std::regex_search(shard, regex, std::regex_constants::match_continuous);
          });
      if (matches) {
        names.push_back(shard);
      }
    }
    if (names.empty()) {
      fail_choice(fmt::format(
          "split pattern '{}' of part '{}' matches none of the {} shards; it is a regular "
          "expression matched from the start of the name, not a glob (write '.*' where "
          "a glob has '*'){}",
          printable(pattern.regex), printable(pattern.part), shards.size(),
          shards.empty() ? ""
                         : fmt::format("; the first shard is '{}'", printable(shards.front()))));
    }
    config.parts.push_back({pattern.part, collapse_names(names)});
  }
  return config;
}

SelectedShards select_shards(const SplitConfig& config, const std::string& part,
                             const std::string& path) {
  try {
    const SplitConfig::Part& chosen = part_named(config, part);
    SelectedShards result;
    std::unordered_set<std::string> excluded;
    for (const std::string& pattern : config.exclude) {
      for (std::string& entry : expand_braces(pattern)) {
        excluded.insert(entry);
        result.exclude_entries.push_back(std::move(entry));
      }
    }
    std::unordered_set<std::string> dropped;
    for (const std::string& pattern : chosen.patterns) {
      for (std::string& name : expand_braces(pattern)) {
        if (excluded.contains(name)) {
          dropped.insert(std::move(name));
        } else {
          result.names.push_back(std::move(name));
        }
      }
    }
    std::erase_if(result.exclude_entries,
                  [&](const std::string& entry) { return dropped.contains(entry); });
    if (result.names.empty()) {
      fail_choice(fmt::format("split part '{}' has no shards{}", printable(part),
                              dropped.empty() ? "" : " that are not excluded"));
    }
    return result;
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

}  // namespace energon
