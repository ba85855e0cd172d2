// Quarantine files: samples and shards that a run left out because they were bad, one JSON object a
// line, to be left out from the start by the next run.
//
// docs/formats/quarantine.md gives the format; loaders write it
// (energon/loader/quarantine_writer.h).

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace energon {

/// One line. With neither index nor key it names the whole shard.
struct QuarantineEntry {
  std::string dataset_path = {};  ///< folder, absolute
  std::string shard_name = {};
  std::optional<std::int64_t> index = std::nullopt;  ///< in the shard
  std::optional<std::string> key = std::nullopt;
  int line = 0;  ///< in the file, from 1

  bool is_shard() const { return !index && !key; }
};

struct Quarantine {
  std::string path = {};
  std::vector<QuarantineEntry> entries = {};
  std::vector<std::string> warnings = {};
};

/// Strict: a line that is no such object, or has an unknown or wrong field, is an Error
/// (kInvalidArgument) with file, line and reason. A line that a crash cut off (it does not end with
/// '}') becomes a warning. `path` is named in errors.
Quarantine parse_quarantine(std::string_view text, const std::string& path);

/// Throws Error: kNotFound, kIo, and as parse_quarantine().
Quarantine read_quarantine(const std::string& path);

/// Whether entries are about a dataset: the same folder or file, whatever links lead to it. Asks
/// the file system once for each path, not for each entry.
class DatasetFilter {
 public:
  explicit DatasetFilter(std::string dataset_path) : dataset_path_(std::move(dataset_path)) {}

  bool matches(const QuarantineEntry& entry);

 private:
  const std::string dataset_path_;
  std::unordered_map<std::string, bool> known_;
};

/// What quarantine files name of a JSONL file, whose only shard is the file itself.
struct QuarantinedLines {
  std::vector<std::int64_t> indexes = {};  ///< ascending, without doubles
  std::vector<std::string> warnings = {};  ///< also about samples that are not there
};

/// `path`: a JSONL file of `sample_count` samples, whose keys are their numbers. Throws Error as
/// read_quarantine(); kInvalidArgument if the file as a whole is in quarantine.
QuarantinedLines find_quarantined_lines(const std::vector<std::string>& files,
                                        const std::string& path, std::int64_t sample_count);

}  // namespace energon
