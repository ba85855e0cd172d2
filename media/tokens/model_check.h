// Checks files of SentencePiece before the library reads them: it trusts what it reads. Internal to
// media/tokens.

#pragma once

#include <cstdint>

#include "io/bytes.h"

namespace energon {

/// As in the file.
enum class PieceModel : std::uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

/// Checks the message ModelProto of sentencepiece_model.proto: its wire format; that pieces are
/// unique, without a zero and shorter than 8,000 bytes, with numbers as scores; that no more than
/// 64 symbols of the user begin with one another; both tables of normalisation. Returns the type of
/// the model. Throws Error: kCorruptData, kResourceExhausted above kMaxSentencePieceModelBytes.
PieceModel check_piece_model(ByteView model);

}  // namespace energon
