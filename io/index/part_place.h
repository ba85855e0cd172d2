// Checks that a part is in the tar where index.sqlite places it. Private to io.

#pragma once

#include <string_view>

#include "io/file.h"
#include "io/index/sample_index.h"
#include "io/tar/tar_header.h"

namespace energon {

/// Throws Error (kCorruptData) unless the part fits into `tar` and leaves room for a header before
/// it.
void check_part_range(const PartLocation& part, const FileSource& tar);

/// Throws Error (kCorruptData) unless `header`, the block before the content of `part`, is that of
/// the member `name`, or a walk over its sample, located with `index`, finds the part. `name` is
/// "key.part".
void check_part_place(TarBlock header, std::string_view name, const PartLocation& part,
                      const FileSource& tar, const SampleIndex& index);

}  // namespace energon
