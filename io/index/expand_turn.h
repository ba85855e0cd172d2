// Whose turn it is to expand a shard, so that processes do not all do the same work. Private to
// io.
//
// The turn is the lock of a file `<copy>.tmp.0000000000000000` beside the copy to be made; it goes
// with its holder, and the file, if its holder is killed, with the other temporary files. It only
// saves work: where locks do not reach the other processes, several have the turn, and each
// publishes its copy by itself.

#pragma once

#include <chrono>
#include <string>

#include "io/unique_fd.h"

namespace energon {

/// How long the holder of a turn may write nothing before others stop waiting for it.
inline constexpr std::chrono::minutes kExpandStallLimit{5};

class ExpandTurn {
 public:
  /// Waits as long as another process has the turn for `copy_path` and makes progress. Returns when
  /// the copy is there, it is our turn, or waiting makes no sense (no locks here, the other one
  /// stands still). Throws nothing but std::bad_alloc.
  explicit ExpandTurn(const std::string& copy_path);
  /// Removes the lock file, if it is ours.
  ~ExpandTurn();
  ExpandTurn(const ExpandTurn&) = delete;
  ExpandTurn& operator=(const ExpandTurn&) = delete;

  /// Says which file will grow: those who wait look at it.
  void announce(const std::string& temporary_path);

 private:
  bool is_in_place() const;

  const std::string path_;
  UniqueFd lock_;  // not valid without the turn
};

}  // namespace energon
