// Reads and checks fields that occur in several kinds of metadataset entries. Private to io. All
// functions throw Error (kInvalidArgument) with place and line.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "io/dataset/yaml_value.h"
#include "io/index/media_metadata.h"
#include "io/recipe/metadataset.h"

namespace energon {

std::optional<std::string> find_string(const YamlFields& fields, std::string_view key);

/// The name of a configuration file. Nullopt if it is absent or equals `usual`, the default.
std::optional<std::string> find_config(const YamlFields& fields, std::string_view key,
                                       std::string_view usual);

nlohmann::ordered_json read_subflavors(const YamlFields& fields);
ShuffleOverEpochs read_shuffle(const YamlFields& fields);
std::optional<Subset> read_subset(const YamlFields& fields);

/// `media_filter`: bounds such as min_width, and `part`.
std::optional<MediaCondition> read_media_filter(const YamlFields& fields);

/// A weight or a number of repetitions, above 0; 1 if absent.
double read_factor(const YamlFields& fields, std::string_view key);

Nonmatch read_nonmatch(const YamlFields& fields);
Joiner read_joiner(const YamlValue& value);

}  // namespace energon
