// Reads JSON that we wrote and somebody may have edited: whatever is not as expected is an Error
// that names its path, such as "state.inner[0].fields.rng".

#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace energon {

/// Throws Error (kCorruptData) with `path` if more than 512 lists and objects lie in each other: to
/// be called before anything that recurses looks at JSON that came from outside, be it a copy.
void check_depth(const nlohmann::ordered_json& json, const std::string& path);

/// A value and its path. All members throw Error (kCorruptData) with the path. Copies are cheap
/// but for the path.
class JsonReader {
 public:
  /// Borrows `json`, which must outlive this and all readers made from it. `path` names it.
  JsonReader(const nlohmann::ordered_json& json, std::string path);

  const nlohmann::ordered_json& json() const { return *json_; }
  const std::string& path() const { return path_; }
  bool is_null() const;

  std::int64_t integer() const;
  /// An integer that is not negative.
  std::int64_t count() const;
  bool boolean() const;
  const std::string& text() const;
  std::vector<std::int64_t> integers() const;

  /// The elements of an array.
  std::vector<JsonReader> elements() const;
  /// The member `name` of an object; find() gives nothing if it is not there.
  JsonReader member(std::string_view name) const;
  std::optional<JsonReader> find(std::string_view name) const;
  /// Requires that this is an object without members that are not in `known`.
  void require_only(std::initializer_list<std::string_view> known) const;

  /// Says what is there, too: a number, or a text as far as it is short; of lists and objects only
  /// their size.
  [[noreturn]] void fail(std::string_view reason) const;

 private:
  const nlohmann::ordered_json* json_;
  std::string path_;
};

}  // namespace energon
