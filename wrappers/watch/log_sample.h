// Logs every item, one JSON object per line, to inspect the order of items afterwards.
//
// Fields as in energon/stage/debug_log.h: t ("yield_batch"), r (rank), w (worker), idx (number of
// items before this one since the pipeline was made or restored, skipped items included), keys, and
// also restore_key, from which the item can be rebuilt.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/order/worker_config.h"
#include "energon/stage/debug_log.h"
#include "wrappers/watch/timed_stage.h"

namespace energon {

/// Costs one system call per item.
class LogSample final : public PassThrough {
 public:
  /// Takes ownership of `inner`. `path` is a pattern as in DebugLog. The file is opened with the
  /// first item, so only pipelines that run have a file. next() throws Error (kIo) if it cannot be
  /// written.
  LogSample(std::unique_ptr<Dataset> inner, std::string path, const WorkerConfig& config,
            int worker);

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;
  std::int64_t skip(std::int64_t count) override;

 private:
  void apply_state(const State& state) override;
  void log(const Sample& sample);

  const std::string path_;
  const WorkerConfig config_;
  const int worker_;
  std::optional<DebugLog> log_;
  std::int64_t index_ = 0;
};

}  // namespace energon
