// A part that comes twice in one sample.
//
// prepare() refuses such a shard, but an index by Energon, which keeps the last of the two, may
// list the sample. Which one is right, nobody can tell: it is refused when it is read, too.

#pragma once

#include <cstdint>

#include "energon/sample/sample.h"
#include "io/bytes.h"

namespace energon {

/// `fields` are the parts in `range`, the bytes of a sample, which stand at `range_offset` of their
/// tar. Throws Error (kCorruptData) with the offset of the last part whose name came before.
void check_parts_differ(const Mapping& fields, ByteView range, std::uint64_t range_offset);

}  // namespace energon
