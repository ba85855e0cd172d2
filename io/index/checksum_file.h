// Digests of a shard's samples: `<shard>.tar.xxh3`, written by `energon prepare --checksums`.
//
// One XXH3-64 per sample, over the sample's whole byte range in the tar (TarIndex::range():
// headers, data, padding). One hash over the bytes read for a sample therefore verifies everything,
// including names and sizes. The file also stores the size of the tar and a digest of itself.
// docs/formats/checksums.md gives the layout.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "io/file.h"
#include "io/index/tar_index.h"

namespace energon {

/// Immutable after construction, so safe to share between threads. Holds 8 bytes per sample in
/// memory.
class ChecksumFile {
 public:
  /// Loads the digests for a tar of `tar_size` bytes with `sample_count` samples. Throws Error:
  /// kNotFound, kIo, kCorruptData if the file is damaged or belongs to another shard,
  /// kUnsupported if a newer version wrote it.
  static ChecksumFile load(const std::string& checksum_path, std::uint64_t tar_size,
                           std::int64_t sample_count);

  std::int64_t sample_count() const { return static_cast<std::int64_t>(digests_.size()); }

  /// Requires: 0 <= i < sample_count().
  std::uint64_t digest(std::int64_t i) const { return digests_[static_cast<std::size_t>(i)]; }
  /// XXH3-64 of the file's bytes.
  std::uint64_t file_digest() const;

  /// Whether `range_bytes`, the bytes of TarIndex::range(i), match the stored digest. Requires: 0
  /// <= i < sample_count().
  bool matches(std::int64_t i, ByteView range_bytes) const;

 private:
  ChecksumFile(SharedBytes content, std::uint64_t tar_size, std::int64_t sample_count,
               const std::string& path);

  SharedBytes content_;
  std::span<const std::uint64_t> digests_;  // of content_
};

/// The path of the checksum file, next to the index: "….tar.idx" gives "….tar.xxh3". Requires:
/// `index_path` ends in ".idx".
std::string checksum_path(std::string_view index_path);

/// The content of a checksum file.
std::string encode_checksums(std::uint64_t tar_size, std::span<const std::uint64_t> digests);

/// Replaces `checksum_path` atomically. Throws Error (kIo).
void write_checksums(const std::string& checksum_path, std::uint64_t tar_size,
                     std::span<const std::uint64_t> digests, unsigned mode = 0644);

/// Reads all of `tar` once, in blocks; returns one digest per sample. Throws Error (kIo,
/// kCorruptData) as FileSource::read_at().
std::vector<std::uint64_t> compute_checksums(const FileSource& tar, const TarIndex& index);

}  // namespace energon
