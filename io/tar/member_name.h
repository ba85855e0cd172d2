// Splits the name of a tar member into a sample key and a part name.
//
// The rule is Energon's, so both loaders see the same samples in a shard: the key is the name up to
// the first dot of the last path component, the part is the rest. Names that begin with a component
// like "__meta__" belong to no sample. As in Energon, a hidden file in a folder has an odd key:
// "d/.hid.txt" is part "hid.txt" of sample "d/".
//
// One exception: files that macOS adds to archives ("d/._0.jpg", "d/.DS_Store") belong to no
// sample. Energon makes them parts of a sample "d/" and then usually refuses the shard because that
// key repeats.

#pragma once

#include <optional>
#include <string_view>

namespace energon {

/// Both fields are views into the name that was split.
struct MemberName {
  std::string_view key;
  std::string_view part;  ///< without the leading dot, "" for "trail."

  bool operator==(const MemberName&) const = default;
};

/// Nullopt if a member with this name belongs to no sample. Names are bytes: case, "./" and
/// encoding are preserved.
std::optional<MemberName> split_member_name(std::string_view name);

/// Fast path for the next member of a sample with the known key `key`: the part if `name` is
/// clearly `key`, a dot and a part, exactly as split_member_name() would split it. Nullopt means to
/// call split_member_name(). Requires: `key` comes from split_member_name().
std::optional<std::string_view> part_of_key(std::string_view name, std::string_view key);

/// True for part names like "__key__", which the loader reserves: a shard must not overwrite a
/// sample's metadata.
inline bool is_reserved_part(std::string_view part) { return part.starts_with("__"); }

}  // namespace energon
