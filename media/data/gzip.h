// gzip of RFC 1952, through zlib.

#pragma once

#include "energon/sample/buffer_allocator.h"
#include "io/bytes.h"
#include "media/decode_limits.h"

namespace energon {

/// The expanded content of one member or of several in a row. Zeros may follow, with which tapes
/// are filled up, as gzip(1) and Python allow. The result lies in `memory`.
///
/// Thread-safe if `memory` is. Throws Error with the byte offset: kCorruptData for a wrong checksum
/// or length, data that is cut and anything else that follows; kResourceExhausted above
/// limits.max_bytes, before more is expanded.
SharedBytes expand_gzip(ByteView encoded, const DecodeLimits& limits, BufferAllocator& memory);

}  // namespace energon
