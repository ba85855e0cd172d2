// At which steps of a run the workers save their states.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace energon {

/// Of the first `step` batches of a rank, those of worker `local_worker_id`: workers take turns.
std::int64_t worker_step(std::int64_t step, int local_worker_id, int num_workers);

/// A set of steps; 0, the start, is always one. A value.
class CheckpointSchedule {
 public:
  /// The start only.
  CheckpointSchedule() = default;
  /// In any order. Throws Error (kInvalidArgument) for a negative one.
  explicit CheckpointSchedule(std::vector<std::int64_t> steps);
  /// Every `interval` steps and the last one, if the run has one. Throws Error (kInvalidArgument)
  /// unless the interval is at least 1 and the last step at least 0.
  static CheckpointSchedule every(std::int64_t interval,
                                  std::optional<std::int64_t> last_step = std::nullopt);

  bool contains(std::int64_t step) const;
  /// True if there is a step besides the start.
  bool saves() const { return interval_ || steps_.size() > 1; }

  /// The steps at which worker `local_worker_id` of `num_workers` has made `worker_step` batches,
  /// ascending.
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
