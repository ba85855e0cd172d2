// JSON, MessagePack and CBOR as a Value.

#pragma once

#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/decode_limits.h"

namespace energon {

/// JSON of RFC 8259.
///
/// null becomes Null, numbers without fraction and exponent int64, other numbers double, texts
/// std::string, arrays List, objects Mapping in their order. A name that comes twice keeps its
/// first place and its last value, as in Python's json. A byte order mark of UTF-8 is skipped.
///
/// Thread-safe. Throws Error with line, column (both from 1; columns count bytes) and byte (from
/// 0): kCorruptData for what is no JSON, kUnsupported for a number that neither int64 nor double
/// holds, kResourceExhausted above limits.max_depth or limits.max_bytes.
Value decode_json(ByteView encoded, const DecodeLimits& limits = {});

/// MessagePack: github.com/msgpack/msgpack/blob/master/spec.md.
///
/// One value: nil becomes Null, integers int64, floating-point numbers double, str std::string, bin
/// SharedBytes with memory of its own, array List, map Mapping in its order. A name that comes
/// twice keeps its first place and its last value.
///
/// Thread-safe. Memory is bounded by the bytes that are there, whatever lengths they claim. Throws
/// Error with the byte offset: kCorruptData for damaged data, bytes after the value and strings
/// that are not UTF-8; kUnsupported for integers outside int64, names that are no strings and
/// extension types, timestamps included; kResourceExhausted above limits.max_depth or
/// limits.max_bytes.
Value decode_msgpack(ByteView encoded, const DecodeLimits& limits = {});

/// CBOR of RFC 8949.
///
/// One item: null and undefined become Null, integers int64, floating-point numbers double, text
/// strings std::string, byte strings SharedBytes with memory of their own, arrays List, maps
/// Mapping in their order. A name that comes twice keeps its first place and its last value. Tags
/// are ignored: a date is its text or number, a bignum its bytes. Items of indefinite length are
/// read.
///
/// Thread-safe. Memory is bounded by the bytes that are there, whatever lengths they claim. Throws
/// Error with the byte offset: kCorruptData for damaged data, bytes after the item and texts that
/// are not UTF-8; kUnsupported for integers outside int64, names that are no texts and simple
/// values other than false, true, null and undefined; kResourceExhausted above limits.max_depth or
/// limits.max_bytes.
Value decode_cbor(ByteView encoded, const DecodeLimits& limits = {});

}  // namespace energon
