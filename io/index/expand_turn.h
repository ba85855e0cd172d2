// Lets one process at a time expand a shard, so that several processes do not all do the same work.
// Private to io.
//
// The turn is the lock of the file `<copy>.tmp.0000000000000000` beside the copy to be made. The
// lock ends with its holder; if the holder is killed, the file is removed with the other temporary
// files. The turn only saves work: where locks do not reach the other processes, several have the
// turn, and each publishes its own copy.

#pragma once

#include <chrono>
#include <string>

#include "io/file.h"

namespace energon {

/// How long the holder of a turn may write nothing before others stop waiting for it.
inline constexpr std::chrono::minutes kExpandStallLimit{5};

class ExpandTurn {
 public:
  /// Waits while another process has the turn for `copy_path` and makes progress. Returns when the
  /// copy exists, this object has the turn, or waiting is useless (locks do not work here, or the
  /// other process stalls). Throws Error as path_exists().
  explicit ExpandTurn(const std::string& copy_path);
  /// Removes the lock file, if this object has the turn.
  ~ExpandTurn();
  ExpandTurn(const ExpandTurn&) = delete;
  ExpandTurn& operator=(const ExpandTurn&) = delete;

  /// Announces the file that will grow: waiting processes watch its size for progress.
  void announce(const std::string& temporary_path);

 private:
  bool is_in_place() const;

  const std::string path_;
  UniqueFd lock_;  // not valid without the turn
};

}  // namespace energon
