// MessagePack as a Value: github.com/msgpack/msgpack/blob/master/spec.md.

#pragma once

#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/decode_limits.h"

namespace energon {

/// One value: nil becomes Null, integers int64, floating-point numbers double, str std::string, bin
/// SharedBytes with memory of its own, array List, map Mapping in its order. A name that comes
/// twice keeps its first place and its last value.
///
/// Thread-safe. Memory is bounded by the bytes that are there, whatever lengths they claim. Throws
/// Error with the byte offset: kCorruptData for damaged data, bytes behind the value and texts that
/// are not UTF-8; kUnsupported for integers outside int64, names that are no texts and extension
/// types, timestamps included; kResourceExhausted above limits.max_depth or limits.max_bytes.
Value decode_msgpack(ByteView encoded, const DecodeLimits& limits = {});

}  // namespace energon
