// Quarantine files: the samples and shards that a run left out because they were bad, one JSON
// object per line. The next run leaves them out from the start.
//
// docs/formats/quarantine.md gives the format; loaders write it
// (energon/loader/failure_log.h).

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/dataset/dataset_folder.h"

namespace energon {

// --- The file ---

/// One line. With neither index nor key it names the whole shard.
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
/// (kInvalidArgument) with file, line and reason. A line that was cut off by a crash (it does not
/// end with '}') becomes a warning. `path` is named in errors.
Quarantine parse_quarantine(std::string_view text, const std::string& path);

/// Throws Error: kNotFound, kIo, and as parse_quarantine().
Quarantine read_quarantine(const std::string& path);

/// Whether entries are about a dataset: the same folder or file, through any symbolic links.
/// Queries the file system once per path, not per entry. Not thread-safe.
class DatasetFilter {
 public:
  explicit DatasetFilter(std::string dataset_path) : dataset_path_(std::move(dataset_path)) {}

  bool matches(const QuarantineEntry& entry);

 private:
  const std::string dataset_path_;
  std::unordered_map<std::string, bool> known_;
};

/// The samples of a JSONL file that quarantine files name. The file itself is its only shard.
struct QuarantinedLines {
  std::vector<std::int64_t> indexes = {};  ///< ascending, without duplicates
  std::vector<std::string> warnings = {};  ///< also about samples that do not exist
};

/// `path` is a JSONL file of `sample_count` samples, whose keys are their numbers. Throws Error as
/// read_quarantine(); kInvalidArgument if the whole file is in quarantine.
QuarantinedLines find_quarantined_lines(const std::vector<std::string>& files,
                                        const std::string& path, std::int64_t sample_count);

// --- The shards of a dataset ---
//
// Leaves out the samples and shards that quarantine files name.

/// Samples that quarantine files name.
struct QuarantinedSamples {
  std::vector<std::pair<std::string, std::int64_t>> places;  ///< shard name, index in the shard
  std::vector<std::pair<std::string, std::string>> keys;     ///< shard name, key

  /// The keys as "shard/key", for resolve_excludes().
  std::vector<std::string> entries() const;
};

/// Reads `files` and removes the whole shards that they name from `set`, whose shards need not be
/// open. Returns the single samples that they name. Throws Error as read_quarantine();
/// kInvalidArgument if no shard is left.
QuarantinedSamples take_quarantined(const std::vector<std::string>& files, ShardSet& set);

/// Adds the samples that are named by index to set.excludes; one that does not exist becomes a
/// warning.
void exclude_by_index(const QuarantinedSamples& quarantined, ShardSet& set);

}  // namespace energon
