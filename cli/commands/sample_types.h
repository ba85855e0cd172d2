// What the samples of a dataset are, for dataset.yaml: from the options of prepare, or from answers
// of the user.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "io/prepare/prepare.h"
#include "io/recipe/typed_samples.h"

namespace energon::cli {

/// The options of prepare that say what the samples are.
struct SampleTypeFlags {
  std::string type = {};                    ///< a class, such as CaptioningSample
  std::vector<std::string> field_map = {};  ///< FIELD=EXPRESSION, or a JSON object as in Energon
  bool is_asking = false;                   ///< for what the above do not say
};

void add_sample_type_flags(CLI::App& command, SampleTypeFlags& flags);

/// The names of those that are given.
std::vector<std::string> given_sample_type_flags(const SampleTypeFlags& flags);

/// What the options say; nothing if they say nothing. Throws UsageError if they contradict
/// themselves, such as a required field that is missing. Does not ask.
std::optional<TypedSamples> samples_of_flags(const SampleTypeFlags& flags);

/// Shows what was printed so far and, on standard error, the question; returns the next line of
/// standard input without its end. Throws Error (kCancelled) at the end of the input.
std::string ask(const std::string& question);

/// energon prepare --interactive. Shows the parts of the first of `samples`, and asks for the type
/// and for each of its fields, as far as `flags` do not say them. A wrong answer is explained and
/// asked for again. Throws UsageError for wrong flags, Error (kCancelled) if the answers end.
TypedSamples ask_for_samples(const std::vector<FirstSample>& samples, const SampleTypeFlags& flags);

}  // namespace energon::cli
