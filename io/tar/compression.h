// Compressed shards: which compression a shard has, by its name and its first bytes, and
// decompressing a whole shard.
//
// A compressed shard has no random access, so it is expanded once, and the expanded file is read
// from then on. Every check that the format allows is made: libarchive reads the same formats but
// ignores gzip's checksum.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/bytes.h"
#include "io/file.h"

namespace energon {

// --- Detection ---

enum class Compression : std::uint8_t { kNone, kGzip, kZstd };

/// "none", "gzip" or "zstd".
std::string_view to_string(Compression compression);

/// Compression by file suffix: ".tgz" and ".tar.gz" are gzip, ".tar.zst" is zstd, all others are
/// not compressed.
Compression compression_of_name(std::string_view path);

/// Compression by the first four bytes of a file (fewer if it is shorter).
Compression compression_of_magic(ByteView first_bytes);

/// Compression by name and first bytes. Throws Error (kCorruptData) if they disagree, so that a
/// misnamed file is never read as something else.
Compression compression_of(const FileSource& file);

/// A sentence for error messages about a file that should be a tar or compressed tar: its first
/// bytes, and a hint for common cases such as an error page.
std::string describe_first_bytes(ByteView first_bytes);

// --- Expanding ---

/// Limits against archives that are small on disk and huge when expanded.
struct ExpandLimits {
  /// Bytes written. Must be at least 1.
  std::uint64_t max_output_bytes = std::uint64_t{256} << 30;

  /// Output size divided by input size; checked only once the output exceeds `free_output_bytes`.
  /// Media compress little; raw masks may reach a few hundred.
  std::uint64_t max_ratio = 200;
  std::uint64_t free_output_bytes = std::uint64_t{64} << 20;

  /// Largest zstd window, as a power of two: the memory that expanding takes. 27 is 128 MiB, the
  /// limit of zstd itself without --long.
  int max_zstd_window_log = 27;
};

/// Writes the expanded content of `file` (gzip or zstd, by compression_of()) to `output_fd` at its
/// position, and returns the number of bytes. Concatenated gzip members or zstd frames form one
/// stream. After an error the output is incomplete: discard it. Throws Error: kCorruptData for a
/// wrong checksum, a wrong length, a truncated stream or trailing data; kResourceExhausted naming
/// the limit; kInvalidArgument if `file` is not compressed; kIo. The byte offset in an error counts
/// in the output.
std::uint64_t expand(const FileSource& file, int output_fd, const ExpandLimits& limits = {});

}  // namespace energon
