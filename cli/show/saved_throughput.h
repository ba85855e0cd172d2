// The results that energon bench wrote with --json, read again.

#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/show/throughput.h"

namespace energon::cli {

/// What a comparison needs of a result.
struct SavedThroughput {
  std::string path;
  std::string program;
  nlohmann::ordered_json settings;  ///< an object
  nlohmann::ordered_json machine;   ///< an object
  std::vector<Repetition> repetitions;
  double first_batch_seconds = 0;
};

/// Throws Error that names the file: kNotFound, kIo, kCorruptData if it is no such result,
/// kUnsupported if it has another version.
SavedThroughput read_throughput(const std::string& path);

}  // namespace energon::cli
