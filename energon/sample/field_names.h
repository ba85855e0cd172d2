// Names of fields: each comes once in a sample, a batch and a mapping.
//
// A sample is an ordered list of named values, so nothing but this check keeps a name from coming
// twice. It is made where fields come from a function of the user and before samples are batched.

#pragma once

#include <optional>
#include <string_view>

#include "energon/sample/sample.h"

namespace energon {

/// A name that comes twice; nothing if each comes once. Views `fields`.
std::optional<std::string_view> find_twice(const Mapping& fields);

/// Throws Error (kInvalidArgument) that names the field and `owner` ("sample '0001'") if a name
/// comes twice. Mappings inside are not looked at.
void check_field_names(const Mapping& fields, std::string_view owner);

/// The same for a sample or batch that a function made; also throws if one of its sources has no
/// shard.
void check_made(const Sample& sample);

}  // namespace energon
