// Shows a loader's statistics to users.

#pragma once

#include <optional>
#include <string>

#include "energon/worker/statistics.h"

namespace energon::cli {

/// The verdict, then each worker with a table of its stages, then what was left out.
std::string to_text(const LoaderStatistics& statistics);

/// "3 samples in 2 shards were left out, the last one: …"; empty if none were.
std::optional<std::string> describe_failures(const LoaderStatistics& statistics);

}  // namespace energon::cli
