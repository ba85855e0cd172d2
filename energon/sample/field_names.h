// Checks that field names are unique within a sample, a batch or a mapping.
//
// A sample is an ordered list of named values, so only this check rejects duplicate names. It runs
// on fields that a user function returned, and before samples are batched.

#pragma once

#include <optional>
#include <string_view>

#include "energon/sample/sample.h"

namespace energon {

/// Returns a name that occurs twice, or nullopt if all names are unique. The result views `fields`.
std::optional<std::string_view> find_twice(const Mapping& fields);

/// Throws Error (kInvalidArgument) that names the field and `owner` ("sample '0001'") if a name
/// occurs twice. Does not check nested mappings.
void check_field_names(const Mapping& fields, std::string_view owner);

/// Checks a sample or batch that a user function made, in the same way. Also throws if one of its
/// sources has no shard.
void check_made(const Sample& sample);

}  // namespace energon
