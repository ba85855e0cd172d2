// Finds the samples of a shard: which members belong together, where their bytes are, and whether
// the archive is properly terminated.
//
// Every index is built from this scan. If all headers of a shard are plain (tar_header.h), they
// have only one interpretation, and TarFileWalker alone reads them. Otherwise, the headers are read
// both with libarchive and with TarFileWalker, and the shard is rejected if the results differ. The
// scan also rejects everything that would lose samples or give them wrong parts: broken headers,
// truncation, keys that reappear, hard links, members that are not stored contiguously. Payloads
// are not read.
//
// Grouping is Energon's (member_name.h): consecutive members with the same key form one sample. A
// sample begins at the first header block of its first member, extension headers included, and
// extends to the next sample, including members in between that belong to no sample.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/file.h"

namespace energon {

/// How to treat a tar that may be truncated or has garbage after its end.
enum class ScanStrictness : std::uint8_t {
  kNormal,  ///< a missing end-of-archive block, and garbage after it, are warnings
  kStrict,  ///< both are errors
};

struct ShardScanOptions {
  ScanStrictness strictness = ScanStrictness::kNormal;

  /// Maximum number of parts in a sample. More usually means that bad names merge a whole shard
  /// into one sample. Exceeding the limit is an error.
  std::size_t max_parts_per_sample = 100'000;

  /// Maximum size of a part; a larger one is an error. Unset means no limit but the file size.
  std::optional<std::uint64_t> max_member_bytes = std::nullopt;
};

struct ScannedPart {
  std::string name;  ///< the part's name, such as "seg.png"
  std::uint64_t content_offset = 0;
  std::uint64_t size = 0;

  bool operator==(const ScannedPart&) const = default;
};

/// Occupies [offset, offset + size) of the shard.
struct ScannedSample {
  std::string key;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::vector<ScannedPart> parts = {};  ///< in archive order; names are unique

  bool operator==(const ScannedSample&) const = default;
};

/// Members that belong to no sample, by reason.
struct SkippedMembers {
  std::uint64_t directories = 0;
  std::uint64_t symbolic_links = 0;
  std::uint64_t special_files = 0;  ///< FIFOs and devices
  std::uint64_t by_name = 0;        ///< regular files whose name belongs to no sample

  bool operator==(const SkippedMembers&) const = default;
};

struct ShardScan {
  std::vector<ScannedSample> samples;  ///< in archive order; keys are unique
  /// First zero block, or the end of the file if there is none.
  std::uint64_t end_offset = 0;
  SkippedMembers skipped;
  std::vector<std::string> warnings;  ///< at most a few, each about the whole shard
};

/// Scans an uncompressed shard. Throws Error with path, byte offset and key: kCorruptData;
/// kUnsupported for sparse members and the like; kResourceExhausted naming the option; kIo.
ShardScan scan_shard(const FileSource& file, const ShardScanOptions& options = {});

// --- The end of the archive ---
//
// Readers stop at the first zero block. So for a tar with one zero block in the middle, or two
// concatenated tars, they silently lose the second half. Here that is an error.

enum class ArchiveTail : std::uint8_t {
  kComplete,  ///< at least one zero block, then only zeros
  kNoEnd,     ///< the file ends with the last member: complete, or truncated there
  kGarbage,   ///< two or more zero blocks, then bytes that are not a tar header
};

/// Checks [end_offset, end of file), where `end_offset` is the end of the last member. Throws Error
/// (kCorruptData) with the offset of data that other readers would lose.
ArchiveTail check_archive_tail(const FileSource& file, std::uint64_t end_offset);

/// Describes the problem with the tail for the user. Requires: `tail` is not kComplete.
std::string describe(ArchiveTail tail, std::uint64_t end_offset);

}  // namespace energon
