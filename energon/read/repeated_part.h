// Detects a part that occurs twice in one sample.
//
// prepare() rejects such a shard, but an index made by Energon, which keeps the last of the two
// parts, may contain the sample. It is not known which part is correct, so the sample is also
// rejected when it is read.

#pragma once

#include <cstdint>

#include "energon/sample/sample.h"
#include "io/bytes.h"

namespace energon {

/// `fields` are the parts in `range`, the bytes of a sample, which begin at offset `range_offset`
/// of their tar. Throws Error (kCorruptData) with the offset of the last part whose name occurred
/// before.
void check_parts_differ(const Mapping& fields, ByteView range, std::uint64_t range_offset);

}  // namespace energon
