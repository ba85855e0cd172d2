// Compares two results that energon bench wrote with --json.

#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/commands/throughput.h"

namespace energon::cli {

/// The parts of a result that a comparison needs.
struct SavedThroughput {
  std::string path;
  std::string program;
  nlohmann::ordered_json settings;  ///< an object
  nlohmann::ordered_json machine;   ///< an object
  std::vector<Repetition> repetitions;
  double first_batch_seconds = 0;
};

/// Throws Error that names the file: kNotFound, kIo, kCorruptData if it is not a result,
/// kUnsupported if it has another version.
SavedThroughput read_throughput(const std::string& path);

/// One string per setting that differs, such as "--num-workers is 1 in a.json and 2 in b.json".
std::vector<std::string> different_settings(const SavedThroughput& first,
                                            const SavedThroughput& second);

/// A table with the medians of both, their ranges and the ratio of the second to the first, and
/// whether the ranges overlap, after a list of different settings and machines. If the ranges
/// overlap, or one result has a single repetition, the text claims no difference.
std::string comparison_text(const SavedThroughput& first, const SavedThroughput& second);

}  // namespace energon::cli
