// How the name of a tar member becomes a sample key and a part name.
//
// The rule is Energon's, so that both loaders see the same samples in one shard: the key is the
// name up to the first dot of the last path component, the part is the rest. Names that begin with
// a component like "__meta__" belong to nobody. A hidden file in a folder has Energon's odd key:
// "d/.hid.txt" is part "hid.txt" of sample "d/".
//
// One exception to Energon's rule: files that macOS strews into archives ("d/._0.jpg",
// "d/.DS_Store") are nobody's, where Energon would make them parts of a sample "d/" and then mostly
// refuse the shard because that key comes again.

#pragma once

#include <optional>
#include <string_view>

namespace energon {

/// Both view the name that was split.
struct MemberName {
  std::string_view key;
  std::string_view part;  ///< without the dot before it; empty for "trail."

  bool operator==(const MemberName&) const = default;
};

/// Empty if a member of that name belongs to no sample. Names are bytes: case, "./" and encoding
/// are kept as they are.
std::optional<MemberName> split_member_name(std::string_view name);

/// True for part names like "__key__", which the loader keeps for itself: a shard must not be able
/// to overwrite a sample's metadata.
inline bool is_reserved_part(std::string_view part) { return part.starts_with("__"); }

}  // namespace energon
