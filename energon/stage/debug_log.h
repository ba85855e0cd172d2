// A log of what loaders and workers deliver, one JSON object a line, for looking at orders after
// the fact.
//
// The parent and each worker write files of their own. The lines and their fields are Energon's: t
// (what happened), r (rank), w (worker, null in the parent), and for a delivered batch worker_id,
// worker_idx (number in that worker's stream), idx (number in the rank's stream; goes on after a
// restore), iter_idx (number in this epoch), global_idx (number since the loader was made), keys.

#pragma once

#include <string>
#include <string_view>

#include "energon/order/worker_config.h"
#include "energon/state/savable.h"
#include "io/unique_fd.h"

namespace energon {

/// Not thread-safe. A log without a path does nothing.
class DebugLog {
 public:
  /// No log.
  DebugLog() = default;
  /// Appends to the file that `path` names after "{worker_id}" was replaced by a number of its own
  /// (rank * (workers + 1) for the parent, one more plus the worker for a worker) and "{pid}" by
  /// the process id. `worker` is -1 in the parent. Throws Error (kIo).
  DebugLog(std::string_view path, const WorkerConfig& config, int worker);

  bool enabled() const { return file_.valid(); }
  /// Writes `line` with one system call. Throws Error (kIo).
  void write(const Config& line);

 private:
  std::string path_;
  UniqueFd file_;
};

}  // namespace energon
