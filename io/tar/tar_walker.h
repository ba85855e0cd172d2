// Walks over the members of a tar: in memory, or in a file without reading its payloads.
//
// Both walkers return the same members as libarchive (archive_reader.h) but are faster; tests
// compare the results.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/bytes.h"
#include "io/file_source.h"
#include "io/tar/tar_walk.h"

namespace energon {

/// The meaning of a zero block where a header is expected.
enum class ZeroBlock : std::uint8_t {
  kIsDamage,     ///< in a sample's range, which ends where its last member ends
  kEndsArchive,  ///< in a whole archive; only zeros follow
};

/// Walks bytes in memory: one sample's range of a shard or, with ZeroBlock::kEndsArchive, a whole
/// small shard. A range may begin with members that belong to no sample. It must end where a member
/// ends: a member that extends past the end of the range is an error. Allocates memory only for a
/// name that is split over fields or stored in an extension header.
class TarWalker final : public TarWalk {
 public:
  /// `bytes` start at `base_offset` of their file; offsets of members and errors count from the
  /// beginning of that file. `bytes` must outlive the walker.
  explicit TarWalker(ByteView bytes, std::uint64_t base_offset = 0,
                     ZeroBlock zero_block = ZeroBlock::kIsDamage)
      : TarWalk(base_offset, base_offset + bytes.size()),
        bytes_(bytes),
        base_(base_offset),
        zero_block_(zero_block) {}

  /// The content of a member. Requires: the member was returned by this walker.
  ByteView data(const TarMember& member) const {
    return bytes_.subspan(member.data_offset - base_, member.size);
  }

 private:
  ByteView bytes_at(std::uint64_t offset, std::size_t size) override {
    return bytes_.subspan(offset - base_, size);
  }
  void check_end(std::uint64_t offset) override;

  const ByteView bytes_;
  const std::uint64_t base_;
  const ZeroBlock zero_block_;
};

/// Walks a file with pread() of small windows around the headers. Only read errors carry the file's
/// path; the caller adds it to others. Bytes after the first zero block are not checked:
/// check_archive_tail() does that.
class TarFileWalker final : public TarWalk {
 public:
  /// `file` must outlive the walker.
  explicit TarFileWalker(const FileSource& file) : TarWalk(0, file.size()), file_(file) {}
  /// Walks [begin, end) of the file. Requires: begin <= end <= file.size().
  TarFileWalker(const FileSource& file, std::uint64_t begin, std::uint64_t end)
      : TarWalk(begin, end), file_(file) {}

 private:
  ByteView bytes_at(std::uint64_t offset, std::size_t size) override;
  void check_end(std::uint64_t) override {}

  const FileSource& file_;
  std::unique_ptr<std::byte[]> window_;
  std::size_t window_capacity_ = 0;
  std::uint64_t window_offset_ = 0;
  std::size_t window_size_ = 0;
};

}  // namespace energon
