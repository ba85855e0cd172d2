// What lint says of the contents of parts: JSON that cannot be parsed, headers of pictures and
// sounds that are damaged.

#pragma once

#include <functional>
#include <string>

#include "io/file_source.h"
#include "io/tar/shard_scan.h"

namespace energon {

/// Called with the number of the sample, the part, and what is wrong with it: "is no JPEG image:
/// …".
using ReportPart =
    std::function<void(std::size_t sample, const ScannedPart& part, std::string what)>;

/// Reads the JSON parts of one sample completely (beyond 64 MiB they are passed over), and the
/// beginning of its pictures and sounds. Throws Error (kIo, kCorruptData).
void lint_parts(const FileSource& tar, const ShardScan& scan, std::size_t sample,
                const ReportPart& report);

}  // namespace energon
