#include "io/dataset/yaml_value.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {
namespace {

using Json = nlohmann::ordered_json;

// Far more than a description of datasets needs, far less than nested aliases can produce.
constexpr int kMaxYamlDepth = 64;
constexpr std::int64_t kMaxNodes = 100'000;

// Without aliases, the values and their text are less than twice the bytes of the document, and the
// document is read only a few times.
constexpr std::int64_t kReadsOfDocument = 8;
constexpr std::int64_t kAlwaysReadable = std::int64_t{1} << 20;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

// errc() if all of `text` is a number, result_out_of_range if it is a number that does not fit.
template <typename Number>
std::errc parse_number(std::string_view text, Number& value) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return end == text.data() + text.size() ? error : std::errc::invalid_argument;
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  return parse_number(text, value) == std::errc() ? std::optional(value) : std::nullopt;
}

// Excludes "inf" and "nan", which from_chars accepts as numbers.
std::optional<double> parse_real(std::string_view text) {
  return text.find_first_of("0123456789") == std::string_view::npos ? std::nullopt
                                                                    : parse_number<double>(text);
}

Json scalar_json(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") {  // quoted
    return text;
  }
  const std::string word = lower(text);
  if (word.empty() || word == "null" || word == "~") {
    return nullptr;
  }
  if (word == "true" || word == "yes") {
    return true;
  }
  if (word == "false" || word == "no") {
    return false;
  }
  if (const auto integer = parse_number<std::int64_t>(text)) {
    return *integer;
  }
  if (text.find_first_of(".eE") != std::string::npos) {
    if (const auto real = parse_real(text)) {
      return *real;
    }
  }
  return text;
}

// A line that begins with "---" always starts a document; only comments and directives may precede
// the first.
bool has_second_document(std::string_view text) {
  bool has_content = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const bool is_mark = line.starts_with("---") &&
                         (line.size() == 3 || line[3] == ' ' || line[3] == '\t' || line[3] == '\r');
    if (is_mark && has_content) {
      return true;
    }
    const std::size_t first = line.find_first_not_of(" \t\r");
    has_content = has_content || is_mark ||
                  (first != std::string_view::npos && line[first] != '#' && line[0] != '%');
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return false;
}

}  // namespace

YamlValue YamlValue::parse(const std::string& text, const std::string& path) {
  try {
    Json(text).dump();  // checks the encoding
  } catch (const Json::type_error&) {
    throw Error(ErrorCode::kInvalidArgument, "not UTF-8; save the file as UTF-8", {.path = path});
  }
  const auto error_of = [&](const std::string& problem) {
    return Error(ErrorCode::kInvalidArgument, problem, {.path = path});
  };
  if (has_second_document(text)) {
    throw error_of("expected one YAML document, found more");
  }
  try {
    // Not LoadAll(), which loops forever on a leading comma.
    const auto size = static_cast<std::int64_t>(text.size());
    return YamlValue(YAML::Load(text), "", path,
                     std::make_shared<std::int64_t>(kReadsOfDocument * size + kAlwaysReadable));
  } catch (const YAML::Exception& error) {
    throw error_of(fmt::format("not valid YAML: {}", printable(error.what())));
  }
}

void YamlValue::fail(const std::string& problem) const {
  const YAML::Mark mark = node_.Mark();
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} {}{}", place_.empty() ? "the document" : place_, problem,
                          mark.is_null() ? "" : fmt::format(", line {}", mark.line + 1)),
              {.path = *path_});
}

YamlValue YamlValue::inner(const YAML::Node& node, std::string place) const {
  take(1);
  return YamlValue(node, std::move(place), *path_, left_);
}

void YamlValue::take(std::size_t size) const {
  *left_ -= static_cast<std::int64_t>(size);
  if (*left_ < 0) {
    fail("is repeated by aliases far beyond the size of the file; write out the values");
  }
}

bool YamlValue::is_null() const {
  return node_.IsNull() || (node_.IsScalar() && scalar_json(node_).is_null());
}

std::string YamlValue::string() const {
  if (!node_.IsScalar() || is_null()) {
    fail("must be a string");
  }
  take(node_.Scalar().size());
  return node_.Scalar();
}

std::string YamlValue::text() const {
  if (!node_.IsScalar()) {
    fail("must be a string");
  }
  take(node_.Scalar().size());
  return node_.Scalar();
}

double YamlValue::number() const {
  if (!node_.IsScalar()) {
    fail("must be a number");
  }
  const Json value = scalar_json(node_);
  if (value.is_number()) {
    return value.get<double>();
  }
  const std::string& text = node_.Scalar();
  double real = 0;  // also integers that exceed 64 bits
  const std::errc error =
      node_.Tag() == "!" ? std::errc::invalid_argument : parse_number(text, real);
  if (error == std::errc::result_out_of_range) {
    fail(fmt::format("is out of range for a number, found '{}'", printable(text)));
  }
  const std::string word = lower(text);
  const bool is_word = word.ends_with("nan") || word.ends_with("inf");  // ".nan", "-.inf"
  if (error != std::errc() || is_word) {
    fail(fmt::format("must be a {}number, found '{}'", is_word ? "finite " : "", printable(text)));
  }
  return real;
}

std::int64_t YamlValue::integer() const {
  const Json value = node_.IsScalar() ? scalar_json(node_) : Json();
  if (!value.is_number_integer()) {
    std::int64_t ignored = 0;
    if (node_.IsScalar() && node_.Tag() != "!" &&
        parse_number(node_.Scalar(), ignored) == std::errc::result_out_of_range) {
      fail(fmt::format("is too large for an integer, found '{}'", printable(node_.Scalar())));
    }
    fail(node_.IsScalar() ? fmt::format("must be an integer, found '{}'", printable(node_.Scalar()))
                          : "must be an integer");
  }
  return value.get<std::int64_t>();
}

Json YamlValue::json() const {
  std::int64_t nodes = 0;
  const auto convert = [&](const auto& self, const YAML::Node& node, int depth) -> Json {
    if (depth > kMaxYamlDepth || ++nodes > kMaxNodes) {
      fail(fmt::format("is nested deeper than {} levels or has more than {} values", kMaxYamlDepth,
                       kMaxNodes));
    }
    if (node.IsSequence()) {
      Json result = Json::array();
      for (const YAML::Node& item : node) {
        result.push_back(self(self, item, depth + 1));
      }
      return result;
    }
    if (node.IsMap()) {
      Json result = Json::object();
      for (const auto& [key, value] : inner(node, place_).entries()) {
        result[key] = self(self, value.node_, depth + 1);
      }
      return result;
    }
    take(node.IsScalar() ? node.Scalar().size() : 0);
    return node.IsScalar() ? scalar_json(node) : Json();
  };
  return convert(convert, node_, 0);
}

std::vector<YamlValue> YamlValue::list() const {
  if (!node_.IsSequence()) {
    fail("must be a list");
  }
  std::vector<YamlValue> items;
  for (const YAML::Node& item : node_) {
    items.push_back(inner(item, fmt::format("{}[{}]", place_, items.size())));
  }
  return items;
}

YamlValue::Entries YamlValue::entries(std::optional<std::string_view> may_repeat) const {
  if (!node_.IsMap()) {
    fail("must be a mapping");
  }
  Entries entries;
  std::set<std::string> seen;
  auto repeats = std::count_if(node_.begin(), node_.end(), [may_repeat](const auto& entry) {
    return entry.first.IsScalar() && entry.first.Scalar() == may_repeat;
  });
  for (const auto& entry : node_) {
    if (!entry.first.IsScalar()) {
      fail("must have strings as keys");
    }
    const std::string& key = entry.first.Scalar();
    take(key.size());
    YamlValue value = inner(
        entry.second, fmt::format("{}{}{}", place_, place_.empty() ? "" : ".", printable(key)));
    if (key == may_repeat && --repeats > 0) {
      continue;
    }
    if (!seen.insert(key).second) {
      value.fail("occurs twice");
    }
    entries.emplace_back(key, std::move(value));
  }
  return entries;
}

YamlFields::YamlFields(const YamlValue& map, const std::vector<std::string_view>& known,
                       std::string_view hint)
    : map_(map), entries_(map.entries()) {
  for (const auto& [key, value] : entries_) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      value.fail(fmt::format("is not a known key; known: {}{}", fmt::join(known, ", "), hint));
    }
  }
}

std::optional<YamlValue> YamlFields::find(std::string_view key, Nulls nulls) const {
  for (const auto& [name, value] : entries_) {
    if (name == key && (nulls == Nulls::kKeep || !value.is_null())) {
      return value;
    }
  }
  return std::nullopt;
}

YamlValue YamlFields::at(std::string_view key) const {
  if (auto value = find(key)) {
    return *value;
  }
  map_.fail(fmt::format("has no '{}'", key));
}

}  // namespace energon
