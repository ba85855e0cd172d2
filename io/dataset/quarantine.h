// Quarantine files list the samples and shards that a run skipped because they were bad, one JSON
// object per line. The next run skips them from the start.
//
// docs/formats/quarantine.md gives the format; loaders write it
// (energon/loader/failure_log.h).

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/bytes.h"
#include "io/dataset/dataset_folder.h"

namespace energon {

// --- The file ---

/// One line. Without index and key, the entry means the whole shard.
struct QuarantineEntry {
  std::string dataset_path = {};  ///< folder, absolute
  std::string shard_name = {};
  std::optional<std::int64_t> index = std::nullopt;  ///< position in the shard
  std::optional<std::string> key = std::nullopt;
  int line = 0;  ///< line number in the file, from 1

  bool is_shard() const { return !index && !key; }
};

struct Quarantine {
  std::string path = {};
  std::vector<QuarantineEntry> entries = {};
  std::vector<std::string> warnings = {};
};

/// Strict: a line that is not such an object, or has an unknown or wrong field, is an Error
/// (kInvalidArgument) with file, line and reason. A line truncated by a crash (it does not end with
/// '}') becomes a warning. Errors name `path`.
Quarantine parse_quarantine(std::string_view text, const std::string& path);

/// Throws Error: kNotFound, kIo, and as parse_quarantine().
Quarantine read_quarantine(const std::string& path);

/// The part of a line that is for people.
struct QuarantineCause {
  std::string stage = {};
  std::string cause = {};
  ByteRange bytes = {};  ///< of the sample in the uncompressed tar; size 0 if not known
};

/// One line with the present time, with a line feed. Bytes that are not UTF-8 are replaced.
std::string to_line(const QuarantineEntry& entry, const QuarantineCause& cause);

/// A hash of the place that `entry` names. Entries with an index are the same place if their
/// indexes are, whatever their keys.
std::uint64_t place_digest(const QuarantineEntry& entry);

/// Matches entries to a dataset: the same folder or file, through any symbolic links. Queries the
/// file system once per path, not per entry. Not thread-safe.
class DatasetFilter {
 public:
  explicit DatasetFilter(std::string dataset_path) : dataset_path_(std::move(dataset_path)) {}

  bool matches(const QuarantineEntry& entry);

 private:
  const std::string dataset_path_;
  std::unordered_map<std::string, bool> known_;
};

/// The quarantined samples of a JSONL file. The file itself is its only shard.
struct QuarantinedLines {
  std::vector<std::int64_t> indexes = {};  ///< ascending, without duplicates
  std::vector<std::string> warnings = {};  ///< also about samples that do not exist
};

/// `path` is a JSONL file of `sample_count` samples, whose keys are their indices. Throws Error as
/// read_quarantine(); kInvalidArgument if the whole file is quarantined.
QuarantinedLines find_quarantined_lines(const std::vector<std::string>& files,
                                        const std::string& path, std::int64_t sample_count);

// --- The shards of a dataset ---
//
// Skips the samples and shards that quarantine files list.

/// Shards and samples that quarantine files list.
struct QuarantinedSamples {
  std::set<std::string> shards;                              ///< as a whole
  std::vector<std::pair<std::string, std::int64_t>> places;  ///< shard name, index in the shard
  std::vector<std::pair<std::string, std::string>> keys;     ///< shard name, key

  /// The keys as "shard/key", for resolve_excludes().
  std::vector<std::string> entries() const;
};

/// Reads `files`. Returns what they list of the shards of `set`, which need not be open. Throws
/// Error as read_quarantine(); kInvalidArgument if they list all shards.
QuarantinedSamples find_quarantined(const std::vector<std::string>& files, ShardSet& set);

/// Removes the shards that are quarantined as a whole from `set`.
void drop_shards(const std::set<std::string>& names, ShardSet& set);

/// The list of a ShardSet to which exclusions are added.
using ExcludeList = std::vector<SampleExclude> ShardSet::*;

/// Adds the samples listed by index to `list`; one that does not exist becomes a warning.
void exclude_by_index(const QuarantinedSamples& quarantined, ShardSet& set,
                      ExcludeList list = &ShardSet::excludes);
/// Adds all samples of the shards that are quarantined as a whole to `list`.
void exclude_shards(const std::set<std::string>& names, ShardSet& set, ExcludeList list);

}  // namespace energon
