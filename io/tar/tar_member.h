// What a walk over an archive yields: one member's place and kind, not its bytes.

#pragma once

#include <cstdint>
#include <string_view>

namespace energon {

enum class MemberType : std::uint8_t {
  kRegular,
  kHardLink,
  kSymbolicLink,
  kDirectory,
  kOther,  ///< FIFO or device
};

struct TarMember {
  /// Raw bytes, never converted; valid until the next call of next().
  std::string_view name;
  MemberType type = MemberType::kRegular;
  /// As in the header, NUL included; NUL always from ArchiveReader.
  char type_flag = '\0';
  /// The stored bytes are a map and pieces, not the file.
  bool sparse = false;
  /// First block of the member, which may be a pax or GNU extension header of its own.
  std::uint64_t header_offset = 0;
  std::uint64_t data_offset = 0;
  std::uint64_t size = 0;  ///< stored bytes; [data_offset, data_offset + size)
};

}  // namespace energon
