#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "protocols/cerebras/worker_checkpoint.h"

namespace energon::testing {

TEST_CASE("A schedule has its steps", "[protocols]") {
  const CheckpointSchedule every = CheckpointSchedule::every(4, 10);
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 0; step < 20; ++step) {
    if (every.contains(step)) {
      steps.push_back(step);
    }
  }
  CHECK(steps == std::vector<std::int64_t>{0, 4, 8, 10});
  CHECK(every.describe() == "0, every 4 up to 10, and 10");
  CHECK_THROWS_AS(CheckpointSchedule::every(0), Error);
  CHECK_THROWS_AS(CheckpointSchedule::every(5, -3), Error);
  CHECK_THROWS_AS(CheckpointSchedule({3, -1}), Error);
  CHECK_FALSE(CheckpointSchedule().saves());
  for (const int workers : {1, 2, 5}) {
    CAPTURE(workers);
    for (int worker = 0; worker < workers; ++worker) {
      CAPTURE(worker);
      for (std::int64_t made = 0; made < 12; ++made) {
        CAPTURE(made);
        for (const std::int64_t step : every.steps_at(made, worker, workers)) {
          CAPTURE(step);
          CHECK(worker_step(step, worker, workers) == made);
        }
      }
    }
  }
}

}  // namespace energon::testing
