// Adds samples to an exclusion, or removes them: to a quarantine file that later runs take
// (OpenOptions::exclude_files), or to the split file of a prepared dataset.
//
//   exclude_samples("data", {"cats/0042"}, {.output = "bad.jsonl"});
//
// A name is the key of a sample, SHARD/KEY, or a shard. A key that several shards or datasets have
// means all of these samples, SHARD/KEY one of them. Samples are found by their keys and never
// read, so damaged samples can be excluded. docs/formats/quarantine.md compares the two forms.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/dataset/dataset_folder.h"

namespace energon {

struct ExcludeSamplesOptions {
  /// The quarantine file; created if it does not exist. If empty, nothing is written, and the lines
  /// are only returned.
  std::string output = {};
  /// Changes the list `exclude` of the split file of the dataset instead, which changes the order
  /// of all samples.
  bool is_split = false;
  /// Removes the samples instead of adding them.
  bool is_remove = false;
  /// For people, in each line.
  std::string cause = "excluded by hand";
  /// Folder for indices that cannot be stored next to the data.
  std::optional<std::string> cache_dir = std::nullopt;
  /// Called now and then during long searches. An exception ends them.
  std::function<void()> check_cancelled = nullptr;
};

/// A sample or a shard, and what became of it.
struct ExcludedSample {
  std::string dataset_path = {};
  std::string shard_name = {};
  std::optional<std::int64_t> index = std::nullopt;  ///< in the shard; unset for a whole shard
  std::optional<std::string> key = std::nullopt;     ///< unset for a whole shard
  std::string line = {};   ///< of a quarantine file; an entry of a split file with `is_split`
  bool is_changed = true;  ///< false if it was in the file before, or with `is_remove` was not
};

/// In the order of `names`. All names are found before anything is written. Lines are appended with
/// one system call, so loaders may write into the same file; every other change replaces the file
/// atomically. Calls wait for each other, on one machine and where the file system has locks.
/// Throws Error: kNotFound for a name that is not in the data, with a similar one;
/// kInvalidArgument for a file that is not of the expected format; kUnsupported for data without a
/// split file; kTimeout if another process keeps the lock for 30 s; kIo.
std::vector<ExcludedSample> exclude_samples(const std::string& path,
                                            const std::vector<std::string>& names,
                                            const ExcludeSamplesOptions& options = {});

}  // namespace energon
