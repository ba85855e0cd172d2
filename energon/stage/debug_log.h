// A log of what loaders and workers deliver, to inspect the order later. One JSON object per line.
//
// The parent and each worker write to their own files. The lines and their fields follow Energon: t
// (what happened), r (rank), w (worker, null in the parent), and for a delivered batch worker_id,
// worker_idx (number in that worker's stream), idx (number in the rank's stream; continues after a
// restore), iter_idx (number in this epoch), global_idx (number since the loader's creation), keys.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "energon/order/worker_config.h"
#include "energon/state/savable.h"
#include "io/file.h"

namespace energon {

/// Not thread-safe. A log with an empty path does nothing.
class DebugLog {
 public:
  /// Logs nothing.
  DebugLog() = default;
  /// Opens the file `path` for appending, and creates its folder if it is missing. In `path`,
  /// "{pid}" is replaced by the process id and
  /// "{worker_id}" by a number that is unique in the job: rank * (workers + 1) for the parent, rank
  /// * (workers + 1) + worker + 1 for a worker. `worker` is unset in the parent. Throws Error
  /// (kIo).
  DebugLog(std::string_view path, const WorkerConfig& config, std::optional<int> worker);

  bool enabled() const { return file_.valid(); }
  /// Writes `line` with one system call. Throws Error (kIo).
  void write(const Config& line);

 private:
  std::string path_;
  UniqueFd file_;
};

}  // namespace energon
