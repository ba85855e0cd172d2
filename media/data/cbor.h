// CBOR of RFC 8949 as a Value.

#pragma once

#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/decode_limits.h"

namespace energon {

/// One item: null and undefined become Null, integers int64, floating-point numbers double, text
/// strings std::string, byte strings SharedBytes with memory of their own, arrays List, maps
/// Mapping in their order. A name that comes twice keeps its first place and its last value. Tags
/// are ignored: a date is its text or number, a bignum its bytes. Items of indefinite length are
/// read.
///
/// Thread-safe. Memory is bounded by the bytes that are there, whatever lengths they claim. Throws
/// Error with the byte offset: kCorruptData for damaged data, bytes behind the item and texts that
/// are not UTF-8; kUnsupported for integers outside int64, names that are no texts and simple
/// values other than false, true, null and undefined; kResourceExhausted above limits.max_depth or
/// limits.max_bytes.
Value decode_cbor(ByteView encoded, const DecodeLimits& limits = {});

}  // namespace energon
