// One member as a walk over an archive returns it: its place and kind, not its bytes.

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
  /// Raw bytes, except that ArchiveReader may convert them; valid until the next call of next().
  std::string_view name;
  MemberType type = MemberType::kRegular;
  /// As in the header, where it may be NUL; always NUL from ArchiveReader.
  char type_flag = '\0';
  /// The stored bytes are a sparse map and fragments, not the plain file content.
  bool sparse = false;
  /// First block of the member, which may be its own pax or GNU extension header.
  std::uint64_t header_offset = 0;
  std::uint64_t data_offset = 0;
  std::uint64_t size = 0;  ///< stored bytes; [data_offset, data_offset + size)
};

}  // namespace energon
