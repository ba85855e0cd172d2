// Describes the statistics of a loader for users.

#pragma once

#include <optional>
#include <string>

#include "cli/loader_flags.h"
#include "energon/worker/statistics.h"
#include "io/error.h"

namespace energon::cli {

/// The verdict, each worker with a table of its stages, and a summary of failures.
std::string to_text(const LoaderStatistics& statistics);

/// "3 samples in 2 shards were left out, the last one: …"; nullopt if none were.
std::optional<std::string> describe_failures(const LoaderStatistics& statistics);

/// Explains why a rank delivered nothing in a whole epoch. `statistics` of the loader show whether
/// all samples failed. If not, opens the data again to check whether it is empty, or too small for
/// all ranks and workers.
Error no_samples(const LoaderFlags& flags, const LoaderStatistics& statistics);

}  // namespace energon::cli
