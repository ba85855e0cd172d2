// lint() for one shard and the files beside it: its index, its checksums, its parts. Private to io.

#pragma once

#include <string>

#include "io/dataset/scan_pipeline.h"
#include "io/lint/lint.h"
#include "io/lint/lint_files.h"
#include "io/lint/lint_findings.h"

namespace energon {

/// Scans the shard `name` and adds what is wrong to `findings`. Throws Error if the tar cannot be
/// scanned to its end; then the samples of which the index knows have been checked.
ScannedShard lint_shard(const LintedDataset& dataset, const std::string& name,
                        const LintOptions& options, LintFindings& findings);

}  // namespace energon
