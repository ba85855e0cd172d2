// lint() for a metadataset. Private to io.

#pragma once

#include <string>

#include "io/lint/lint.h"

namespace energon {

/// Lints each dataset that any split names, once: leaves, datasets of joins, and auxiliary
/// datasets. Also lints the join indices. Throws Error as read_metadataset(), and kCancelled.
LintReport lint_metadataset(const std::string& path, const LintOptions& options);

}  // namespace energon
