// JSON of RFC 8259 as a Value.

#pragma once

#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/decode_limits.h"

namespace energon {

/// null becomes Null, numbers without fraction and exponent int64, other numbers double, texts
/// std::string, arrays List, objects Mapping in their order. A name that comes twice keeps its
/// first place and its last value, as in Python's json. A byte order mark of UTF-8 is skipped.
///
/// Thread-safe. Throws Error with line, column (both from 1; columns count bytes) and byte (from
/// 0): kCorruptData for what is no JSON, kUnsupported for a number that neither int64 nor double
/// holds, kResourceExhausted above limits.max_depth or limits.max_bytes.
Value decode_json(ByteView encoded, const DecodeLimits& limits = {});

}  // namespace energon
