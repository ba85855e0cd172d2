// The JSON form of a state, for state dictionaries that people read and programs store, and a
// checking reader for JSON that may have been edited by hand.
//
//   {"type": "ShuffleBuffer",
//    "fields": {"drawn": 3, "open": [1, 2], "rng": {"base64": "AAEC"}, "name": {"text": "a"}},
//    "inner": [{"type": "Slices", "fields": {…}}]}
//
// The conversion is lossless. See docs/formats/checkpoint.md. Invalid input is an Error that names
// the path, such as "state.inner[0].fields.rng".

#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "energon/state/state.h"

namespace energon {

/// Throws Error (kUnsupported) if a type or a field name is not printable ASCII, or if a stage has
/// two fields with the same name.
nlohmann::ordered_json state_to_json(const State& state);

/// Throws Error (kCorruptData) with the path of the invalid element, which begins with `path`.
State state_from_json(const nlohmann::ordered_json& json, const std::string& path = "state");

/// Throws Error (kCorruptData) with `path` if lists and objects are nested more than 512 deep. Call
/// this before any recursive operation on untrusted JSON, even a copy.
void check_depth(const nlohmann::ordered_json& json, const std::string& path);

/// A JSON value and its path. All members throw Error (kCorruptData) with the path. Copying copies
/// only the path.
class JsonReader {
 public:
  /// Borrows `json`, which must outlive this reader and all readers made from it. `path` names
  /// `json` in errors.
  JsonReader(const nlohmann::ordered_json& json, std::string path);

  const nlohmann::ordered_json& json() const { return *json_; }
  const std::string& path() const { return path_; }
  bool is_null() const;

  std::int64_t integer() const;
  /// A non-negative integer.
  std::int64_t count() const;
  bool boolean() const;
  const std::string& text() const;
  std::vector<std::int64_t> integers() const;

  /// The elements of an array.
  std::vector<JsonReader> elements() const;
  /// The member `name` of an object. If it is missing, member() throws and find() returns nullopt.
  JsonReader member(std::string_view name) const;
  std::optional<JsonReader> find(std::string_view name) const;
  /// Throws unless this is an object whose members are all listed in `known`.
  void require_only(std::initializer_list<std::string_view> known) const;

  /// Throws "<path>: <reason>, found <value>". The message shows the start of a string, and the
  /// size of a list or object.
  [[noreturn]] void fail(std::string_view reason) const;

 private:
  const nlohmann::ordered_json* json_;
  std::string path_;
};

}  // namespace energon
