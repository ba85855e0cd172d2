// Why a rank had nothing to deliver in a whole epoch.

#pragma once

#include "cli/job/loader_flags.h"
#include "io/error.h"

namespace energon::cli {

/// Opens the data again to see whether it is empty or too little for all ranks and workers.
Error no_samples(const LoaderFlags& flags);

}  // namespace energon::cli
