// Walks over the members of a tar: in memory, or in a file without reading its payloads.
//
// Supports v7, ustar, GNU (long names, base-256 sizes, old sparse) and pax. Anything that two
// readers could interpret differently is an Error, never a guess: one member too few or too many
// would silently corrupt the training data. Both walkers return the same members as libarchive
// (archive_reader.h) but are faster; tests compare the results.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/bytes.h"
#include "io/file.h"
#include "io/tar/tar_header.h"

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
  /// As stored in the header, possibly NUL; always NUL from ArchiveReader.
  char type_flag = '\0';
  /// The stored bytes are a sparse map and fragments, not the plain file content.
  bool sparse = false;
  /// First block of the member, which may be its own pax or GNU extension header.
  std::uint64_t header_offset = 0;
  std::uint64_t data_offset = 0;
  std::uint64_t size = 0;  ///< stored bytes; [data_offset, data_offset + size)
};

// The header-to-header walk shared by the two walkers below.

/// Limit for the extension headers (pax, long names) of one member, in bytes.
inline constexpr std::uint64_t kMaxExtensionBytes = std::uint64_t{1} << 20;

/// Not thread-safe.
class TarWalk {
 public:
  TarWalk(const TarWalk&) = delete;
  TarWalk& operator=(const TarWalk&) = delete;

  /// The next member, or nullopt at a zero block and at the end of the bytes. The end is sticky,
  /// and so is an error: every further call throws it again. Throws Error: kCorruptData with the
  /// byte offset; kUnsupported for multi-volume archives.
  std::optional<TarMember> next();

  /// The current position: the header after the member just returned or, at the end, the first zero
  /// block or the end of the bytes.
  std::uint64_t offset() const { return offset_; }
  bool met_zero_block() const { return met_zero_block_; }
  /// True while all headers so far were plain (parse_plain_header()), without extensions.
  bool is_plain() const { return is_plain_; }

 protected:
  /// Walks [begin, end).
  TarWalk(std::uint64_t begin, std::uint64_t end) : end_(end), offset_(begin) {}
  ~TarWalk() = default;

  /// The end of the walked range.
  std::uint64_t end() const { return end_; }

  /// The bytes [offset, offset + size), which lie within [begin, end); valid until the next call.
  virtual ByteView bytes_at(std::uint64_t offset, std::size_t size) = 0;
  /// Called once, with the offset of the first zero block.
  virtual void check_end(std::uint64_t offset) = 0;

 private:
  // What the extension headers before a member specify.
  struct Extension {
    std::optional<std::uint64_t> size;
    std::uint64_t total_bytes = 0;
    bool has_pax = false;
    bool has_name = false;  // stored in name_
    bool has_long_name = false;
    bool has_long_link = false;
    bool has_sparse_name = false;
    bool sparse = false;

    bool any() const { return has_pax || has_long_name || has_long_link; }
  };

  std::optional<TarMember> next_plain();
  std::optional<TarHeader> read_header(std::uint64_t offset);
  bool read_extension(const TarHeader& header, std::uint64_t offset, Extension& extension);
  // Reads a header that belongs to no member. `extension` collects the extensions of the next
  // member.
  void read_between_members(const TarHeader& header, std::uint64_t offset,
                            const Extension& extension);
  ByteView extension_body(const TarHeader& header, std::uint64_t offset, Extension& extension);
  void read_pax(ByteView body, std::uint64_t offset, Extension& extension);
  void apply_pax_record(const PaxRecord& record, Extension& extension);
  void read_long_name(ByteView body, std::uint64_t offset, Extension& extension);
  TarMember make_member(const TarHeader& header, std::uint64_t offset, const Extension& extension);
  void set_name(const TarHeader& header, const Extension& extension, TarMember& member);
  std::uint64_t skip_sparse_map(std::uint64_t offset);

  const std::uint64_t end_;
  std::uint64_t offset_;
  bool met_zero_block_ = false;
  bool is_plain_ = true;
  std::string name_;  // only for names that are not stored contiguously
};

/// The meaning of a zero block where a header is expected.
enum class ZeroBlock : std::uint8_t {
  kIsDamage,     ///< within a sample's range, which ends with its last member
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
