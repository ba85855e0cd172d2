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

/// Logs of loaders say what was delivered; where there are none, those of workers say what was
/// made. Throws Error: kIo, kInvalidArgument with file and line for a line that is not of such a
/// log. An incomplete last line (the job runs) becomes a warning.
DeliveredOrder read_order(const std::vector<std::string>& files);

/// The files that `patterns` (files, or patterns as in a shell) match, without duplicates. What is
/// there as it is written is no pattern. Throws Error (kNotFound) if one matches nothing; `noun`
/// says what is missing, such as "log".
std::vector<std::string> expand_patterns(const std::vector<std::string>& patterns,
                                         std::string_view noun);

}  // namespace energon::cli
