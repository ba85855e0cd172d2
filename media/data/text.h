// Texts and whole numbers that are written as text: parts such as txt, cls, id and index.
//
// Both follow Python, in which such datasets are made: bytes.decode("utf-8") and int(bytes).

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/bytes.h"

namespace energon {

/// The bytes as text. A byte order mark stays, as in Python. Thread-safe. Throws Error
/// (kCorruptData) with offset and value of the first byte that is not UTF-8.
std::string decode_text(ByteView encoded);

/// A decimal number: a sign or none, digits with single underscores between them, white space of
/// ASCII around. Thread-safe. Throws Error that shows the text: kCorruptData if it is no number,
/// kUnsupported if it is outside [-2^63, 2^63).
std::int64_t decode_integer(ByteView encoded);

}  // namespace energon
