#include "energon/compat/checkpoint_schedule.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"

namespace energon {

std::int64_t worker_step(std::int64_t step, int local_worker_id, int num_workers) {
  return step / num_workers + (local_worker_id < step % num_workers ? 1 : 0);
}

CheckpointSchedule::CheckpointSchedule(std::vector<std::int64_t> steps) : steps_(std::move(steps)) {
  steps_.push_back(0);
  std::sort(steps_.begin(), steps_.end());
  steps_.erase(std::unique(steps_.begin(), steps_.end()), steps_.end());
  if (steps_.front() < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("step {} of the checkpoint schedule is negative", steps_.front()));
  }
}

CheckpointSchedule CheckpointSchedule::every(std::int64_t interval,
                                             std::optional<std::int64_t> last_step) {
  if (interval < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the checkpoint interval is {}, it must be at least 1", interval));
  }
  if (last_step && *last_step < 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the last step of the schedule is {}, it must be at least 0", *last_step));
  }
  CheckpointSchedule schedule;
  schedule.interval_ = interval;
  schedule.last_step_ = last_step;
  return schedule;
}

bool CheckpointSchedule::contains(std::int64_t step) const {
  if (interval_) {
    const bool is_in_run = step >= 0 && (!last_step_ || step <= *last_step_);
    return is_in_run && (step % *interval_ == 0 || step == last_step_);
  }
  return std::binary_search(steps_.begin(), steps_.end(), step);
}

std::vector<std::int64_t> CheckpointSchedule::steps_at(std::int64_t worker_step,
                                                       int local_worker_id, int num_workers) const {
  const std::int64_t last = worker_step * num_workers + local_worker_id;
  const std::int64_t first = std::max<std::int64_t>(last - num_workers + 1, 0);
  std::vector<std::int64_t> steps;
  for (std::int64_t step = first; step <= last; ++step) {
    if (contains(step)) {
      steps.push_back(step);
    }
  }
  return steps;
}

std::string CheckpointSchedule::describe() const {
  if (!interval_) {
    return fmt::format("{}", fmt::join(steps_, ", "));
  }
  return last_step_
             ? fmt::format("0, every {} up to {}, and {}", *interval_, *last_step_, *last_step_)
             : fmt::format("0 and every {}", *interval_);
}

}  // namespace energon
