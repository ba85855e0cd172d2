#include "energon/state/state_json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/state/json_reader.h"
#include "energon/state/state_depth.h"
#include "io/error.h"
#include "io/json.h"

namespace energon {
namespace {

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
    value.fail("either 'text' or 'base64' is expected");
  }
  if (const auto text = value.find("text")) {
    return text->text();
  }
  const JsonReader encoded = value.member("base64");
  std::optional<std::string> bytes = from_base64(encoded.text());
  if (!bytes) {
    encoded.fail("it is no base64");
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
    fields.fail("an object is expected");
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
