// Checks files of SentencePiece before the library reads them: it trusts what it reads. Internal to
// media/tokens.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "io/bytes.h"

namespace energon {

// --- Fields of Protocol Buffers (protobuf.dev/programming-guides/encoding) ---

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct ProtoField {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t integer = 0;  ///< of kVarint, kFixed32 and kFixed64
  ByteView bytes = {};        ///< of kBytes: a view into the message
  std::size_t offset = 0;     ///< where the field begins in the message
};

/// Walks over the fields of a message in their wire format. Borrows the message.
class ProtoFields {
 public:
  explicit ProtoFields(ByteView message) : message_(message) {}

  /// The next field; nothing at the end. Throws Error (kCorruptData) with the offset for a field
  /// that is cut off, of another wire type (groups), or numbered 0.
  std::optional<ProtoField> next();

 private:
  std::uint64_t varint();
  std::uint64_t fixed(std::size_t size);
  ByteView take(std::uint64_t size);

  ByteView message_;
  std::size_t position_ = 0;
};

// --- Models ---

/// `table` is the size in bytes of a double array of Darts-clone (uint32, little-endian), the
/// array, and texts that end with a zero. The library looks up texts in it without checking bounds;
/// after this check no text leads out of the table, and at most 32 entries are prefixes of a text,
/// for which the library has room. Throws Error: kCorruptData, kResourceExhausted above 16 MiB.
void check_charsmap(ByteView table);

/// As in the file.
enum class PieceModel : std::uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

/// Checks the message ModelProto of sentencepiece_model.proto: its wire format; that pieces are
/// unique, without a zero and shorter than 8,000 bytes, with numbers as scores; that no more than
/// 64 symbols of the user begin with one another; both tables of normalisation. Returns the type of
/// the model. Throws Error: kCorruptData, kResourceExhausted above kMaxSentencePieceModelBytes.
PieceModel check_piece_model(ByteView model);

}  // namespace energon
