// A YAML node with its place in the document, so that errors can name the place:
// "splits.train.blend[1].weight must be a number, found 'x', line 7". Private to io.
//
// Scalars have the same types as in Energon. Quoted scalars are strings; null, ~ and the empty
// scalar are null; true, yes, false and no, in any letter case, are booleans; scalars that parse as
// numbers are numbers; everything else is a string. Aliases are followed, but the total read of a
// document, aliases included, is bounded by its size.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <yaml-cpp/yaml.h>

namespace energon {

/// Not thread-safe. Every function throws Error (kInvalidArgument) with place and line if the node
/// has another kind.
class YamlValue {
 public:
  using Entries = std::vector<std::pair<std::string, YamlValue>>;

  /// The only document of `text`; errors name `path`, which must outlive all values.
  static YamlValue parse(const std::string& text, const std::string& path);

  bool is_map() const { return node_.IsMap(); }
  bool is_list() const { return node_.IsSequence(); }
  bool is_null() const;
  const std::string& place() const { return place_; }

  std::string string() const;  ///< any scalar except null, as written
  std::string text() const;    ///< any scalar, as written, including "null"
  double number() const;
  std::int64_t integer() const;
  nlohmann::ordered_json json() const;
  std::vector<YamlValue> list() const;
  /// Entries of a mapping, in order. A duplicate key is an error, except for `may_repeat`, of which
  /// the last entry counts.
  Entries entries(std::optional<std::string_view> may_repeat = std::nullopt) const;

  [[noreturn]] void fail(const std::string& problem) const;

 private:
  YamlValue(const YAML::Node& node, std::string place, const std::string& path,
            std::shared_ptr<std::int64_t> left)
      : node_(node), place_(std::move(place)), path_(&path), left_(std::move(left)) {}

  YamlValue inner(const YAML::Node& node, std::string place) const;
  void take(std::size_t size) const;

  YAML::Node node_;
  std::string place_;  // empty for the document itself
  const std::string* path_;
  std::shared_ptr<std::int64_t> left_;  // how much of the document may still be read
};

/// A mapping with a fixed set of keys.
class YamlFields {
 public:
  /// Throws Error (kInvalidArgument) that names an unknown key and the known ones, followed by
  /// `hint`.
  YamlFields(const YamlValue& map, const std::vector<std::string_view>& known,
             std::string_view hint = {});

  enum class Nulls { kAbsent, kKeep };
  /// With kAbsent, also nullopt if the value is null.
  std::optional<YamlValue> find(std::string_view key, Nulls nulls = Nulls::kAbsent) const;
  /// Throws Error (kInvalidArgument) if the key is missing.
  YamlValue at(std::string_view key) const;

 private:
  YamlValue map_;
  YamlValue::Entries entries_;
};

}  // namespace energon
