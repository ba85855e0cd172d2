// Restartable loaders of CountingWorkers, and verbs for them.

#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "protocols/cerebras/restartable_data_loader.h"
#include "tests/protocols/cerebras/counting_worker.h"

namespace energon::testing {

/// The number of workers of a rank, and the steps whose states are kept.
inline RestartableOptions with_workers(int workers, CheckpointSchedule schedule = {}) {
  return {.loader = {.worker_config = {.num_workers = workers}},
          .run = {.schedule = std::move(schedule)}};
}

/// Makes a CountingWorker for each worker.
inline auto counting(std::int64_t batch_size, std::int64_t epoch_batches = INT64_MAX) {
  return [=](const PipelineContext& context) {
    return CountingWorker(worker_identity(context), batch_size, epoch_batches);
  };
}

/// The first key of the next batch, or "end".
inline std::string next_key(RestartableDataLoader& loader) {
  const auto batch = loader.next();
  return std::string(batch ? batch->keys.front() : "end");
}

inline void take(RestartableDataLoader& loader, int batches) {
  for (int i = 0; i < batches; ++i) {
    REQUIRE(loader.next());
  }
}

}  // namespace energon::testing
