// What stands behind the last member of a tar.
//
// Readers stop at the first zero block and never look further; a tar with one zero block in the
// middle, or two tars in one file, so loses its second half without a word. Here that is an error.

#pragma once

#include <cstdint>
#include <string>

#include "io/file_source.h"

namespace energon {

enum class ArchiveTail : std::uint8_t {
  kComplete,  ///< at least one zero block, then only zeros
  kNoEnd,     ///< the file ends with the last member: complete, or cut there
  kGarbage,   ///< two zero blocks or more, then bytes that are no tar header
};

/// Looks at [end_offset, end of file), where `end_offset` is the end of the last member. Throws
/// Error (kCorruptData) with the offset of data that other readers would lose.
ArchiveTail check_archive_tail(const FileSource& file, std::uint64_t end_offset);

/// What is wrong with such a tail, for a person. Requires: it is not kComplete.
std::string describe(ArchiveTail tail, std::uint64_t end_offset);

}  // namespace energon
