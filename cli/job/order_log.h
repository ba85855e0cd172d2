// The order in which samples were delivered, from debug logs (energon/stage/debug_log.h).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace energon::cli {

/// What a set of logs says.
struct DeliveredOrder {
  /// Keys of the samples of each step; a step has one batch of each rank (or, if only logs of
  /// workers were given, of each worker).
  std::vector<std::vector<std::string>> steps = {};
  std::int64_t batches = 0;
  std::vector<std::string> warnings = {};
};

/// Loader logs record what was delivered; if there are none, worker logs are used, which record
/// what was produced. Throws Error: kIo, kInvalidArgument with file and line for a line that is not
/// from such a log. An incomplete last line (the job is still running) becomes a warning.
DeliveredOrder read_order(const std::vector<std::string>& files);

/// The files that `patterns` (file names or shell patterns) match, without duplicates. The name of
/// an existing file is not treated as a pattern. Throws Error (kNotFound) if one matches nothing;
/// `noun` says what is missing, such as "log".
std::vector<std::string> expand_patterns(const std::vector<std::string>& patterns,
                                         std::string_view noun);

}  // namespace energon::cli
