// Members of configurations that are younger than the states that may lack them: "draws" of a
// loader, "indexes" and "checksums" of a dataset. They are compared where both configurations have
// them. docs/formats/checkpoint.md says what they mean.

#pragma once

#include <array>
#include <string_view>

#include "energon/state/savable.h"

namespace energon {

inline constexpr std::array<std::string_view, 3> kYoungerMembers = {"draws", "indexes",
                                                                    "checksums"};

bool is_younger_member(std::string_view name);

/// `config` without them, at any depth.
Config without_younger_members(const Config& config);

/// The values of all members `name` in `config`, in order; empty if there is none.
Config values_of_member(const Config& config, std::string_view name);

}  // namespace energon
