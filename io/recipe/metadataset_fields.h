// The fields that the entries of a metadataset have in common, each with its checks. Private to
// io. All throw Error (kInvalidArgument) with place and line.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "io/dataset/yaml_value.h"
#include "io/recipe/metadataset.h"
#include "io/recipe/subset.h"

namespace energon {

std::optional<std::string> find_string(const YamlFields& fields, std::string_view key);

/// Empty also if the name is `usual`, which is assumed anyway.
std::optional<std::string> find_config(const YamlFields& fields, std::string_view key,
                                       std::string_view usual);

nlohmann::ordered_json read_subflavors(const YamlFields& fields);
ShuffleMultiplier read_shuffle(const YamlFields& fields);
std::optional<Subset> read_subset(const YamlFields& fields);

/// A weight or a number of repetitions, above 0; 1 if it is not there.
double read_factor(const YamlFields& fields, std::string_view key);

Nonmatch read_nonmatch(const YamlFields& fields);
Joiner read_joiner(const YamlValue& value);

}  // namespace energon
