// Lints the contents of parts: JSON that cannot be parsed, damaged headers of images and audio, and
// what LintOptions::check_part finds.

#pragma once

#include <functional>
#include <string>

#include "io/file.h"
#include "io/lint/lint.h"
#include "io/tar/shard_scan.h"

namespace energon {

/// Called with the number of the sample, the part, and the problem, such as "is no JPEG image: …".
using ReportPart =
    std::function<void(std::size_t sample, const ScannedPart& part, std::string what)>;

/// Reads the JSON parts of one sample completely (those above 64 MiB are skipped), and the
/// beginning of its images and audio. Parts without a problem are given to `check`, unless it is
/// empty. Throws Error (kIo, kCorruptData).
void lint_parts(const FileSource& tar, const ShardScan& scan, std::size_t sample,
                const CheckPart& check, const ReportPart& report);

}  // namespace energon
