// Finds the samples of a shard: which members belong together, and where each one's bytes are.
//
// This is the source of every index. It therefore reads the shard's headers twice, with libarchive
// and with our walker, and refuses what they see differently; and it refuses everything that would
// make samples vanish or get the wrong parts: broken headers, truncation, keys that come back,
// links, members that are not stored in one piece. Payloads are not read.
//
// Grouping is Energon's (member_name.h): consecutive members with one key are one sample. A sample
// begins at the first header block of its first member, extension headers included, and reaches to
// the next sample, members of no sample in between included.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/file_source.h"

namespace energon {

/// What the file is known to have lost nothing of.
enum class ScanStrictness : std::uint8_t {
  kNormal,  ///< no end-of-archive block, and garbage behind it, are warnings
  kStrict,  ///< both are errors
};

struct ShardScanOptions {
  ScanStrictness strictness = ScanStrictness::kNormal;

  /// A sample with more parts is refused: a shard of one sample is a mistake in its names.
  std::size_t max_parts_per_sample = 100'000;

  /// A larger part is refused. Absent: whatever fits into the file.
  std::optional<std::uint64_t> max_member_bytes = std::nullopt;
};

struct ScannedPart {
  std::string name;  ///< of the part: "seg.png"
  std::uint64_t content_offset = 0;
  std::uint64_t size = 0;

  bool operator==(const ScannedPart&) const = default;
};

/// Occupies [offset, offset + size) of the shard.
struct ScannedSample {
  std::string key;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::vector<ScannedPart> parts = {};  ///< in archive order; names differ from each other

  bool operator==(const ScannedSample&) const = default;
};

/// Members that belong to no sample, by reason.
struct SkippedMembers {
  std::uint64_t directories = 0;
  std::uint64_t symbolic_links = 0;
  std::uint64_t special_files = 0;  ///< FIFOs and devices
  std::uint64_t by_name = 0;        ///< regular files whose name makes them nobody's

  bool operator==(const SkippedMembers&) const = default;
};

struct ShardScan {
  std::vector<ScannedSample> samples;  ///< in archive order; keys differ from each other
  /// First zero block, or the end of the file if there is none.
  std::uint64_t end_offset = 0;
  SkippedMembers skipped;
  std::vector<std::string> warnings;  ///< at most a few, each about the whole shard
};

/// Scans an uncompressed shard. Throws Error with path, byte offset and key: kCorruptData;
/// kUnsupported for sparse members and the like; kResourceExhausted naming the option; kIo.
ShardScan scan_shard(const FileSource& file, const ShardScanOptions& options = {});

}  // namespace energon
