// Explains why a rank delivered nothing in a whole epoch.

#pragma once

#include "cli/job/loader_flags.h"
#include "energon/worker/statistics.h"
#include "io/error.h"

namespace energon::cli {

/// `statistics` of the loader show whether all samples failed. If not, opens the data again to
/// check whether it is empty, or too small for all ranks and workers.
Error no_samples(const LoaderFlags& flags, const LoaderStatistics& statistics);

}  // namespace energon::cli
