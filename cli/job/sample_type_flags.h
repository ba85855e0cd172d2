// The options of prepare that say what the samples of a dataset are.

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "io/recipe/typed_samples.h"

namespace energon::cli {

struct SampleTypeFlags {
  std::string type = {};                    ///< a class, such as CaptioningSample
  std::vector<std::string> field_map = {};  ///< FIELD=EXPRESSION, or a JSON object as in Energon
  bool is_asking = false;                   ///< for what the above do not say
};

void add_sample_type_flags(CLI::App& command, SampleTypeFlags& flags);

/// The names of those that are given.
std::vector<std::string> given_sample_type_flags(const SampleTypeFlags& flags);

/// The type of that name; throws UsageError that lists the types.
SampleType sample_type_of_flag(const std::string& name);

/// The fields in --field-map; throws UsageError.
FieldMap field_map_of(const SampleTypeFlags& flags);

/// What the options say; nothing if they say nothing. Throws UsageError if they contradict
/// themselves, such as a required field that is missing. Does not ask.
std::optional<TypedSamples> samples_of_flags(const SampleTypeFlags& flags);

}  // namespace energon::cli
