// The sample type of a dataset and its fields, for dataset.yaml: from the options of prepare, or
// from answers of the user.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "io/prepare/prepare.h"
#include "io/recipe/typed_samples.h"

namespace energon::cli {

/// The options of prepare for the sample type.
struct SampleTypeFlags {
  std::string type = {};                    ///< a class, such as CaptioningSample
  std::vector<std::string> field_map = {};  ///< FIELD=EXPRESSION, or a JSON object as in Energon
  bool is_asking = false;                   ///< for what the other options leave open
};

void add_sample_type_flags(CLI::App& command, SampleTypeFlags& flags);

/// The names of the given options.
std::vector<std::string> given_sample_type_flags(const SampleTypeFlags& flags);

/// The sample type and fields in the options; nullopt if none are given. Throws UsageError if the
/// options are inconsistent, such as a required field that is missing. Does not ask.
std::optional<TypedSamples> samples_of_flags(const SampleTypeFlags& flags);

/// Flushes the output, prints the question on standard error, and returns the next line of standard
/// input without its end. Throws Error (kCancelled) at the end of the input.
std::string ask(const std::string& question);

/// For energon prepare --interactive: shows the parts of the first of `samples`, and asks for the
/// type and each of its fields, unless `flags` contain them. Explains wrong answers and asks again.
/// Throws UsageError for wrong flags, Error (kCancelled) if the answers end.
TypedSamples ask_for_samples(const std::vector<FirstSample>& samples, const SampleTypeFlags& flags);

}  // namespace energon::cli
