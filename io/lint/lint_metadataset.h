// What lint() does with a metadataset. Private to io.

#pragma once

#include <string>

#include "io/lint/lint.h"

namespace energon {

/// Lints each dataset that one of the splits names, once: leaves, parts of joins, auxiliary
/// datasets; and the join indices. Throws Error as read_metadataset(), and kCancelled.
LintReport lint_metadataset(const std::string& path, const LintOptions& options);

}  // namespace energon
