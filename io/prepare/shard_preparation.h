// What prepare() does with one shard, without looking at any other. Private to io.

#pragma once

#include <string>

#include "io/dataset/scan_pipeline.h"
#include "io/prepare/prepare.h"

namespace energon {

/// Scans the tar at `path`. Writes its index to `index_path` and, where `options` asks for
/// checksums, these to `checksums_path`, both with `file_mode`. Thread-safe. Throws Error
/// (kCorruptData) for a tar that cannot be read, that was changed meanwhile, or that lost samples
/// since its earlier index was made: with Existing::kOverwrite, the latter is a warning of the
/// scan.
ScannedShard prepare_shard(const std::string& path, const std::string& index_path,
                           const std::string& checksums_path, unsigned file_mode,
                           const PrepareOptions& options);

}  // namespace energon
