// Members that were added to configurations later, so that older states may lack them: "draws" of a
// loader, "indexes" and "checksums" of a dataset. They are compared only if both configurations
// have them. docs/formats/checkpoint.md defines them.

#pragma once

#include <array>
#include <string_view>

#include "energon/state/savable.h"

namespace energon {

inline constexpr std::array<std::string_view, 3> kYoungerMembers = {"draws", "indexes",
                                                                    "checksums"};

bool is_younger_member(std::string_view name);

/// A copy of `config` without these members, at any depth.
Config without_younger_members(const Config& config);

/// The values of all members called `name` in `config`, at any depth and in order; empty if there
/// are none.
Config values_of_member(const Config& config, std::string_view name);

}  // namespace energon
