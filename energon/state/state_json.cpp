#include "energon/state/state_json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/state/state.h"
#include "io/error.h"
#include "io/json.h"

namespace energon {
namespace {

constexpr std::size_t kShownLength = 80;
constexpr int kMaxJsonDepth = 512;

// The value as an integer; nullopt if it is not an integer or out of range.
std::optional<std::int64_t> as_integer(const nlohmann::ordered_json& json) {
  const bool fits = json.is_number_integer() &&
                    (!json.is_number_unsigned() ||
                     json.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  return fits ? std::optional(json.get<std::int64_t>()) : std::nullopt;
}

// A short description of the value.
std::string shown(const nlohmann::ordered_json& json) {
  if (json.is_object()) {
    return fmt::format("an object of {} members", json.size());
  }
  if (json.is_array()) {
    return fmt::format("a list of {}", json.size());
  }
  if (!json.is_string()) {
    return json.dump();
  }
  const std::string& text = json.get_ref<const std::string&>();
  const bool cut = text.size() > kShownLength;
  return nlohmann::ordered_json(text.substr(0, kShownLength))
             .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) +
         (cut ? " …" : "");
}

using nlohmann::ordered_json;

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

const std::string& plain_name(const std::string& name) {
  if (!is_plain(name)) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a state with a type or field '{}' has no JSON form: names must be "
                            "printable ASCII",
                            printable(name)));
  }
  return name;
}

ordered_json value_to_json(const StateValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    return *integer;
  }
  if (const auto* bytes = std::get_if<std::string>(&value)) {
    return is_plain(*bytes) ? ordered_json{{"text", *bytes}}
                            : ordered_json{{"base64", to_base64(*bytes)}};
  }
  return std::get<std::vector<std::int64_t>>(value);
}

StateValue value_from_json(const JsonReader& value) {
  if (value.json().is_array()) {
    return value.integers();
  }
  if (!value.json().is_object()) {
    return value.integer();
  }
  value.require_only({"base64", "text"});
  if (value.json().size() != 1) {
    value.fail("expected either 'text' or 'base64'");
  }
  if (const auto text = value.find("text")) {
    return text->text();
  }
  const JsonReader encoded = value.member("base64");
  std::optional<std::string> bytes = from_base64(encoded.text());
  if (!bytes) {
    encoded.fail("expected base64");
  }
  return *std::move(bytes);
}

State state_from(const JsonReader& json, int depth) {
  if (depth > kMaxStateDepth) {
    json.fail("too deeply nested");
  }
  json.require_only({"type", "fields", "inner"});
  State state;
  state.type = json.member("type").text();
  const JsonReader fields = json.member("fields");
  if (!fields.json().is_object()) {
    fields.fail("expected an object");
  }
  for (const auto& [name, value] : fields.json().items()) {
    state.fields.emplace_back(name, value_from_json(fields.member(name)));
  }
  if (const auto inner = json.find("inner")) {
    for (const JsonReader& child : inner->elements()) {
      state.children.push_back(state_from(child, depth + 1));
    }
  }
  return state;
}

}  // namespace

void check_depth(const nlohmann::ordered_json& json, const std::string& path) {
  std::vector<std::pair<const nlohmann::ordered_json*, int>> open = {{&json, 1}};
  while (!open.empty()) {
    const auto [value, depth] = open.back();
    open.pop_back();
    if (depth > kMaxJsonDepth) {
      throw Error(ErrorCode::kCorruptData, fmt::format("{}: too deeply nested", path));
    }
    for (const auto& element : *value) {
      if (element.is_structured()) {
        open.emplace_back(&element, depth + 1);
      }
    }
  }
}

JsonReader::JsonReader(const nlohmann::ordered_json& json, std::string path)
    : json_(&json), path_(std::move(path)) {}

bool JsonReader::is_null() const { return json_->is_null(); }

std::int64_t JsonReader::integer() const {
  const std::optional<std::int64_t> value = as_integer(*json_);
  if (!value) {
    fail("expected a 64-bit integer");
  }
  return *value;
}

std::int64_t JsonReader::count() const {
  const std::int64_t value = integer();
  if (value < 0) {
    fail("expected a non-negative integer");
  }
  return value;
}

bool JsonReader::boolean() const {
  if (!json_->is_boolean()) {
    fail("expected true or false");
  }
  return json_->get<bool>();
}

const std::string& JsonReader::text() const {
  if (!json_->is_string()) {
    fail("expected a string");
  }
  return json_->get_ref<const std::string&>();
}

std::vector<std::int64_t> JsonReader::integers() const {
  if (!json_->is_array()) {
    fail("expected a list of integers");
  }
  std::vector<std::int64_t> integers;
  integers.reserve(json_->size());
  for (const auto& element : *json_) {
    const std::optional<std::int64_t> value = as_integer(element);
    if (!value) {
      JsonReader(element, fmt::format("{}[{}]", path_, integers.size()))
          .fail("expected a 64-bit integer");
    }
    integers.push_back(*value);
  }
  return integers;
}

std::vector<JsonReader> JsonReader::elements() const {
  if (!json_->is_array()) {
    fail("expected a list");
  }
  std::vector<JsonReader> elements;
  for (const auto& element : *json_) {
    elements.emplace_back(element, fmt::format("{}[{}]", path_, elements.size()));
  }
  return elements;
}

JsonReader JsonReader::member(std::string_view name) const {
  std::optional<JsonReader> found = find(name);
  if (!found) {
    fail(fmt::format("expected a member '{}'", name));
  }
  return *std::move(found);
}

std::optional<JsonReader> JsonReader::find(std::string_view name) const {
  if (!json_->is_object()) {
    fail("expected an object");
  }
  const auto found = json_->find(std::string(name));
  return found == json_->end()
             ? std::nullopt
             : std::optional(JsonReader(*found, fmt::format("{}.{}", path_, printable(name))));
}

void JsonReader::require_only(std::initializer_list<std::string_view> known) const {
  if (!json_->is_object()) {
    fail("expected an object");
  }
  for (const auto& [name, value] : json_->items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail(fmt::format("unknown member '{}'", printable(name)));
    }
  }
}

void JsonReader::fail(std::string_view reason) const {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("{}: {}, found {}", path_, reason, shown(*json_)));
}

ordered_json state_to_json(const State& state) {
  ordered_json json = {{"type", plain_name(state.type)}, {"fields", ordered_json::object()}};
  ordered_json& fields = json["fields"];
  for (const auto& [name, value] : state.fields) {
    if (fields.contains(plain_name(name))) {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("a state of {} with two fields '{}' has no JSON form", state.type, name));
    }
    fields[name] = value_to_json(value);
  }
  if (!state.children.empty()) {
    ordered_json& inner = json["inner"] = ordered_json::array();
    for (const State& child : state.children) {
      inner.push_back(state_to_json(child));
    }
  }
  return json;
}

State state_from_json(const ordered_json& json, const std::string& path) {
  check_depth(json, path);
  return state_from(JsonReader(json, path), 0);
}

}  // namespace energon
