// Decompression of a whole shard, with everything checked that the format lets one check.
//
// A compressed shard has no random access; it is expanded once and the expanded file is read from
// then on. libarchive reads the same formats but leaves gzip's checksum unchecked.

#pragma once

#include <cstdint>

#include "io/file_source.h"
#include "io/tar/compression.h"

namespace energon {

/// Bounds against archives that are small on disk and huge when expanded.
struct ExpandLimits {
  /// Bytes written. Must be at least 1.
  std::uint64_t max_output_bytes = std::uint64_t{256} << 30;

  /// Output over input; looked at only once the output passes `free_output_bytes`. Media compress
  /// little; raw masks may reach some hundred.
  std::uint64_t max_ratio = 200;
  std::uint64_t free_output_bytes = std::uint64_t{64} << 20;

  /// Largest zstd window, as a power of two: the memory that expanding takes. 27 is 128 MiB, what
  /// zstd itself accepts without --long.
  int max_zstd_window_log = 27;
};

/// Writes the expanded content of `file` (gzip or zstd, by compression_of()) to `output_fd` at its
/// position, and returns how many bytes. Several gzip members or zstd frames in a row are one
/// stream. After an error, part of the output has been written: throw it away.
/// Throws Error: kCorruptData for a wrong checksum, a wrong length, a truncated stream or anything
/// behind it; kResourceExhausted naming the limit; kInvalidArgument if `file` is not compressed;
/// kIo. The byte offset is the one in the output.
std::uint64_t expand(const FileSource& file, int output_fd, const ExpandLimits& limits = {});

}  // namespace energon
