// Checks what follows the last member of a tar.
//
// Readers stop at the first zero block. So a tar with one zero block in the middle, or two tars in
// one file, silently loses its second half. Here that is an error.

#pragma once

#include <cstdint>
#include <string>

#include "io/file_source.h"

namespace energon {

enum class ArchiveTail : std::uint8_t {
  kComplete,  ///< at least one zero block, then only zeros
  kNoEnd,     ///< the file ends with the last member: complete, or truncated there
  kGarbage,   ///< two or more zero blocks, then bytes that are not a tar header
};

/// Checks [end_offset, end of file), where `end_offset` is the end of the last member. Throws Error
/// (kCorruptData) with the offset of data that other readers would lose.
ArchiveTail check_archive_tail(const FileSource& file, std::uint64_t end_offset);

/// Describes the problem with such a tail for the user. Requires: `tail` is not kComplete.
std::string describe(ArchiveTail tail, std::uint64_t end_offset);

}  // namespace energon
