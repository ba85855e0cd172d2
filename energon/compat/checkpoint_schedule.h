// The steps of a run at which the workers save their states.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace energon {

/// How many of the first `step` batches of a rank come from worker `local_worker_id`. Workers take
/// turns.
std::int64_t worker_step(std::int64_t step, int local_worker_id, int num_workers);

/// A set of steps; always contains 0, the start. A value type.
class CheckpointSchedule {
 public:
  /// Only the start.
  CheckpointSchedule() = default;
  /// `steps` may be in any order. Throws Error (kInvalidArgument) for a negative step.
  explicit CheckpointSchedule(std::vector<std::int64_t> steps);
  /// Every `interval` steps, and `last_step` if given. Throws Error (kInvalidArgument) unless the
  /// interval is at least 1 and the last step at least 0.
  static CheckpointSchedule every(std::int64_t interval,
                                  std::optional<std::int64_t> last_step = std::nullopt);

  bool contains(std::int64_t step) const;
  /// True if there is a step besides the start.
  bool saves() const { return interval_ || steps_.size() > 1; }

  /// The steps of the schedule at which worker `local_worker_id` of `num_workers` has made
  /// `worker_step` batches, ascending.
  std::vector<std::int64_t> steps_at(std::int64_t worker_step, int local_worker_id,
                                     int num_workers) const;

  /// "0, 5, 10", or "0 and every 5".
  std::string describe() const;

 private:
  std::vector<std::int64_t> steps_ = {0};  // ascending
  std::optional<std::int64_t> interval_;
  std::optional<std::int64_t> last_step_;
};

}  // namespace energon
