// A restartable worker object for tests: batches with the keys "<global worker>:<number>".

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocols/cerebras/restartable.h"

namespace energon::testing {

inline Sample keys_batch(std::int64_t count, const std::string& key) {
  Sample batch;
  batch.keys = std::vector<std::string>(static_cast<std::size_t>(count), key);
  return batch;
}

/// Its state is the number of the next batch.
class CountingWorker {
 public:
  CountingWorker(const WorkerIdentity& worker, std::int64_t batch_size,
                 std::int64_t epoch_batches = INT64_MAX)
      : worker_(worker), batch_size_(batch_size), epoch_batches_(epoch_batches) {}

  std::optional<Sample> next() {
    if (in_epoch_ == epoch_batches_) {
      in_epoch_ = 0;
      return std::nullopt;
    }
    ++in_epoch_;
    return keys_batch(batch_size_,
                      std::to_string(worker_.global_worker_id()) + ":" + std::to_string(next_++));
  }

  StateDict state_dict() const { return {{"worker", worker_.global_worker_id()}, {"next", next_}}; }
  void load_state_dict(const StateDict& state, Strictness /*strictness*/) {
    next_ = state.at("next");
  }
  StateDict aggregate_state_dict(std::span<const StateDict> states) const {
    return {{"all", std::vector<StateDict>(states.begin(), states.end())}};
  }
  StateDict deaggregate_state_dict(const StateDict& state, Strictness /*strictness*/) const {
    return state.at("all").at(static_cast<std::size_t>(worker_.global_worker_id()));
  }

  const WorkerIdentity& worker() const { return worker_; }

 private:
  WorkerIdentity worker_;
  std::int64_t batch_size_;
  std::int64_t epoch_batches_;
  std::int64_t next_ = 0;
  std::int64_t in_epoch_ = 0;
};

}  // namespace energon::testing
