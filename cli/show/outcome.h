// Exit codes of sub-commands, and errors in a command line.

#pragma once

#include <string>

namespace energon::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure =
    1;                                ///< bad data, missing files, a dead worker, findings of lint
inline constexpr int kExitUsage = 2;  ///< the command line itself is wrong
inline constexpr int kExitSignal = 128;  ///< plus the number of the signal: 130 after Ctrl-C

/// The command line parses but contradicts itself. Shown with a hint to --help.
struct UsageError {
  std::string message;
};

}  // namespace energon::cli
