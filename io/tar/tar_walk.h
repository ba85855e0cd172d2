// The header-to-header walk that the walkers in tar_walker.h share.
//
// Supports v7, ustar, GNU (long names, base-256 sizes, old sparse) and pax. Everything that two
// readers could interpret differently is an Error, never a guess: one member too few or too many is
// silently wrong training data.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "io/bytes.h"
#include "io/tar/pax_records.h"
#include "io/tar/tar_header.h"
#include "io/tar/tar_member.h"

namespace energon {

/// Limit for the extension headers (pax, long names) of one member, in bytes.
inline constexpr std::uint64_t kMaxExtensionBytes = std::uint64_t{1} << 20;

/// Not thread-safe.
class TarWalk {
 public:
  TarWalk(const TarWalk&) = delete;
  TarWalk& operator=(const TarWalk&) = delete;

  /// The next member; empty at a zero block and at the end of the bytes. The end is sticky, and so
  /// is an error: every further call throws it again. Throws Error: kCorruptData with the byte
  /// offset; kUnsupported for multi-volume archives.
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

  /// The end of what is walked.
  std::uint64_t end() const { return end_; }

  /// The bytes [offset, offset + size), which lie within [begin, end); valid until the next call.
  virtual ByteView bytes_at(std::uint64_t offset, std::size_t size) = 0;
  /// Called once, with the offset of the first zero block.
  virtual void check_end(std::uint64_t offset) = 0;

 private:
  // What the extension headers before a member say about it.
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
  // A header that belongs to no member; `extension` is that of the next one so far.
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
  std::string name_;  // only for names that are not contiguous in one header
};

}  // namespace energon
