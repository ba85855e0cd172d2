// energon prepare --interactive: asks what the samples of a dataset are.

#pragma once

#include <vector>

#include "cli/job/sample_type_flags.h"
#include "io/prepare/prepare.h"
#include "io/recipe/typed_samples.h"

namespace energon::cli {

/// Shows the parts of the first of `samples`, and asks for the type and for each of its fields, as
/// far as `flags` do not say them. A wrong answer is explained and asked for again. Throws
/// UsageError for wrong flags, Error (kCancelled) if the answers end.
TypedSamples ask_for_samples(const std::vector<FirstSample>& samples, const SampleTypeFlags& flags);

}  // namespace energon::cli
