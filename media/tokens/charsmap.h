// Checks the tables of normalisation in a model of SentencePiece. Internal to media/tokens.

#pragma once

#include "io/bytes.h"

namespace energon {

/// `table` is the size in bytes of a double array of Darts-clone (uint32, little-endian), the
/// array, and texts that end with a zero. The library looks up texts in it without checking bounds;
/// after this check no text leads out of the table, and at most 32 entries are prefixes of a text,
/// for which the library has room. Throws Error (kCorruptData);
/// kResourceExhausted above 16 MiB.
void check_charsmap(ByteView table);

}  // namespace energon
