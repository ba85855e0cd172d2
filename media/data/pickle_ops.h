// The opcodes of Python's pickle (pickletools) that torch.save writes, and their arguments.
// Internal to media/data.

#pragma once

#include <cstdint>
#include <string>

#include "media/data/byte_cursor.h"

namespace energon {

enum class PickleOp : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersistentId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProtocol = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8A,
  kShortBinUnicode = 0x8C,
  kBinUnicode8 = 0x8D,
  kBinBytes8 = 0x8E,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

/// The argument of kLong1: a length and that many bytes of two's complement, lowest first. Throws
/// Error: kCorruptData if it is cut, kUnsupported above 8 bytes.
std::int64_t read_pickle_long(ByteCursor& cursor);

/// One of the two arguments of kGlobal: up to a line feed, which is left out. Throws Error
/// (kCorruptData) if there is none.
std::string read_pickle_line(ByteCursor& cursor);

}  // namespace energon
