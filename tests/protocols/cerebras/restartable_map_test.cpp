// Acceptance tests of the map-style restartable object: CER-06 … CER-09, CER-12, CER-13, CER-20.

#include "protocols/cerebras/restartable_map.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/order/rng.h"
#include "protocols/cerebras/restartable.h"
#include "protocols/cerebras/restartable_data_loader.h"
#include "tests/support/error_of.h"

namespace energon::testing {
namespace {

using Catch::Contains;

Sample fetch(std::span<const std::int64_t> indexes) {
  Sample batch;
  for (const std::int64_t index : indexes) {
    batch.keys.push_back(std::to_string(index));
  }
  return batch;
}

auto map_input(const RestartableMapOptions& options) {
  return [options](const PipelineContext& context) {
    return RestartableMap(worker_identity(context), options, fetch);
  };
}

std::string show(const std::optional<Sample>& batch) {
  return batch ? fmt::format("{}", fmt::join(batch->keys, " ")) : "end";
}

// All ranks of a job in one process.
class MapJob {
 public:
  MapJob(const RestartableMapOptions& options, int world_size, int num_workers,
         const CheckpointSchedule& schedule = CheckpointSchedule::every(1)) {
    for (int rank = 0; rank < world_size; ++rank) {
      ranks_.push_back(std::make_unique<RestartableDataLoader>(
          map_input(options),
          RestartableOptions{.loader = {.worker_config = {.rank = rank,
                                                          .world_size = world_size,
                                                          .num_workers = num_workers}},
                             .run = {.schedule = schedule, .repeat = options.repeat}}));
    }
  }

  void load(const StateDict& state, Strictness strictness = Strictness::kStrict) {
    for (const auto& rank : ranks_) {
      rank->load_state_dict(state, strictness);
    }
  }

  // `count` steps, the batches of the job in their order.
  std::vector<std::string> steps(std::int64_t count) {
    std::vector<std::string> batches;
    for (std::int64_t step = 0; step < count; ++step) {
      for (const auto& rank : ranks_) {
        batches.push_back(show(rank->next()));
      }
    }
    return batches;
  }

  StateDict state() {
    std::vector<DataLoaderCheckpoint> all;
    for (const auto& rank : ranks_) {
      const auto checkpoints = rank->checkpoints(rank->step());
      all.insert(all.end(), checkpoints->begin(), checkpoints->end());
    }
    return ranks_.front()->aggregate(std::move(all));
  }

  RestartableDataLoader& rank(std::size_t rank) { return *ranks_[rank]; }

 private:
  std::vector<std::unique_ptr<RestartableDataLoader>> ranks_;
};

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The first `count` batches of the stream, from one worker.
std::vector<std::string> stream(const RestartableMapOptions& options, std::int64_t count) {
  return MapJob(options, 1, 0).steps(count);
}

}  // namespace

TEST_CASE("CER-06 a chain of runs counts samples over all of them and keeps the order",
          "[protocols][cer][fork]") {
  const auto [world_size, workers] = GENERATE(table<int, int>({{1, 0}, {2, 0}, {3, 0}, {2, 2}}));
  const RestartableMapOptions options{.samples = 1000, .batch_size = 4, .shuffle_seed = 11};
  const std::vector<std::string> expected = stream(options, 30 * world_size);
  std::vector<std::string> seen;
  std::optional<StateDict> state;
  std::int64_t samples = 0;
  for (const std::int64_t steps : {10, 5, 7, 8}) {
    CAPTURE(steps);
    MapJob job(options, world_size, workers);
    if (state) {
      job.load(*state);
    }
    seen = joined(seen, job.steps(steps));
    state = job.state();
    samples += steps * 4 * world_size;
    CHECK(state->at("samples_streamed") == samples);
  }
  CHECK(seen == expected);
}

TEST_CASE("CER-07 the global order does not depend on the number of workers",
          "[protocols][cer][fork]") {
  const RestartableMapOptions options{.samples = 1000, .batch_size = 3, .shuffle_seed = 5};
  const std::vector<std::string> expected = stream(options, 400);
  for (const int world_size : {1, 2, 4, 8}) {
    CAPTURE(world_size);
    CHECK(MapJob(options, world_size, 0).steps(400 / world_size) == expected);
  }
  CHECK(MapJob(options, 2, 2).steps(200) == expected);
  MapJob four(options, 4, 0);
  const std::vector<std::string> first = four.steps(50);
  for (const int world_size : {2, 8}) {
    CAPTURE(world_size);
    MapJob resumed(options, world_size, 0);
    resumed.load(four.state());
    CHECK(joined(first, resumed.steps(200 / world_size)) == expected);
  }
}

TEST_CASE("CER-07 another batch size continues at the same sample", "[protocols][cer]") {
  const RestartableMapOptions options{.samples = 100, .batch_size = 6, .shuffle_seed = 5};
  MapJob job(options, 1, 0);
  job.steps(3);
  RestartableMapOptions smaller = options;
  smaller.batch_size = 1;
  MapJob resumed(smaller, 1, 0);
  resumed.load(job.state());
  const std::vector<std::string> all = stream(smaller, 60);
  CHECK(resumed.steps(42) == std::vector<std::string>(all.begin() + 18, all.end()));
}

TEST_CASE("CER-08 the rest of an epoch starts the next, or is a smaller batch",
          "[protocols][cer]") {
  const RestartableMapOptions drop{.samples = 10, .batch_size = 4};
  MapJob job(drop, 1, 0);
  CHECK(job.steps(3) == std::vector<std::string>{"0 1 2 3", "4 5 6 7", "8 9 0 1"});
  const StateDict at_12 = job.state();
  CHECK(job.steps(2) == std::vector<std::string>{"2 3 4 5", "6 7 8 9"});
  MapJob resumed(drop, 1, 0);
  resumed.load(at_12);
  CHECK(resumed.steps(2) == std::vector<std::string>{"2 3 4 5", "6 7 8 9"});

  RestartableMapOptions keep = drop;
  keep.drop_last = false;
  const std::vector<std::string> two_epochs = {"0 1 2 3", "4 5 6 7", "8 9",
                                               "0 1 2 3", "4 5 6 7", "8 9"};
  CHECK(MapJob(keep, 1, 0, {}).steps(6) == two_epochs);
  // The workers of two ranks also share the stream at the end of an epoch.
  CHECK(MapJob(keep, 2, 0, {}).steps(3) == two_epochs);
}

TEST_CASE("CER-08 the ends of epochs are reported if the run does not repeat", "[protocols][cer]") {
  RestartableMapOptions options{.samples = 10, .batch_size = 4, .repeat = false};
  CHECK(MapJob(options, 1, 0).steps(7) == std::vector<std::string>{"0 1 2 3", "4 5 6 7", "end",
                                                                   "8 9 0 1", "2 3 4 5", "6 7 8 9",
                                                                   "end"});
  options.drop_last = false;
  CHECK(MapJob(options, 1, 0, {}).steps(5) ==
        std::vector<std::string>{"0 1 2 3", "4 5 6 7", "8 9", "end", "0 1 2 3"});
}

TEST_CASE("CER-09 an epoch of fewer or more samples than the data has", "[protocols][cer]") {
  const std::int64_t num_samples = GENERATE(7, 10, 25, 30);
  const RestartableMapOptions options{
      .samples = 10, .batch_size = 1, .num_samples = num_samples, .shuffle_seed = 3};
  // Pass p over the data has the permutation of seed + p; an epoch begins with a new pass.
  std::vector<std::string> expected;
  std::uint32_t pass = 3;
  while (expected.size() < 60) {
    for (std::int64_t left = num_samples; left > 0; left -= 10) {
      const std::vector<std::int64_t> order = WorkerRng(pass++).permutation(10);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(left, 10); ++i) {
        expected.push_back(std::to_string(order[static_cast<std::size_t>(i)]));
      }
    }
  }
  expected.resize(60);
  CHECK(stream(options, 60) == expected);
  for (std::int64_t position = 1; position < 40; ++position) {
    CAPTURE(position);
    MapJob job(options, 1, 0);
    job.steps(position);
    MapJob resumed(options, 1, 0);
    resumed.load(job.state());
    CHECK(resumed.steps(60 - position) ==
          std::vector<std::string>(expected.begin() + position, expected.end()));
    CHECK(resumed.state().at("dataset").at("num_samples") == num_samples);
  }
}

TEST_CASE("CER-12 strict refuses with every difference, lenient takes the position",
          "[protocols][cer]") {
  const RestartableMapOptions options{.samples = 10, .batch_size = 2, .shuffle_seed = 1};
  MapJob saved(options, 1, 0);
  saved.steps(3);
  const StateDict state = saved.state();
  const auto strict = [&](const StateDict& changed) {
    MapJob job(options, 1, 0);
    const std::string message = error_of([&] { job.load(changed); }, ErrorCode::kMismatch);
    CHECK(job.steps(1) == stream(options, 1));  // nothing was applied
    return message;
  };
  const auto lenient = [&](const StateDict& changed) {
    MapJob job(options, 1, 0);
    job.load(changed, Strictness::kLenient);
    return job.steps(1).front();
  };
  const std::string after_6 = stream(options, 4).back();

  SECTION("a missing position") {
    StateDict changed = state;
    changed.erase("samples_streamed");
    CHECK_THAT(strict(changed), Contains("samples_streamed: not in the state"));
    MapJob job(options, 1, 0);
    job.load(changed, Strictness::kLenient);
    REQUIRE(job.rank(0).warnings().size() == 1);
    CHECK_THAT(job.rank(0).warnings().front(), Contains("starting from the beginning of the data"));
    CHECK(job.steps(1) == stream(options, 1));
  }
  SECTION("missing, unknown and changed settings, all in one message") {
    StateDict changed = state;
    changed["dataset"].erase("drop_last");
    changed["dataset"]["samples"] = 11;
    changed["dataset"]["seed"] = 2;
    changed["dataset"]["mixture"] = "a";
    changed["dataset"]["batch_size"] = 77;  // may change
    const std::string message = strict(changed);
    CHECK_THAT(message, Contains("samples: 11 in the state, now 10"));
    CHECK_THAT(message, Contains("seed: 2 in the state, now 1"));
    CHECK_THAT(message, Contains("drop_last: not in the state, now true"));
    CHECK_THAT(message, Contains("mixture: \"a\" in the state, but unknown here"));
    CHECK_THAT(message, !Contains("batch_size"));
    CHECK(lenient(changed) == after_6);
  }
  SECTION("an unknown version") {
    StateDict changed = state;
    changed["__version__"] = 7;
    CHECK_THAT(strict(changed), Contains("version 7") && Contains("reads version 1"));
    CHECK_THAT(error_of([&] { lenient(changed); }, ErrorCode::kMismatch), Contains("version 7"));
  }
  SECTION("an invalid position") {
    StateDict changed = state;
    changed["samples_streamed"] = "many";
    CHECK_THAT(strict(changed), Contains("'samples_streamed' is \"many\""));
    CHECK_THAT(error_of([&] { lenient(changed); }, ErrorCode::kMismatch), Contains("many"));
    CHECK_THAT(strict(StateDict::array()), Contains("an object"));
    for (const std::int64_t position : {std::int64_t{-1}, INT64_MAX, INT64_MAX - 3}) {
      CAPTURE(position);
      changed["samples_streamed"] = position;
      CHECK_THAT(strict(changed), Contains("a number from 0 to"));
      CHECK_THAT(error_of([&] { lenient(changed); }, ErrorCode::kMismatch), Contains("from 0 to"));
    }
    changed["samples_streamed"] = kMostSamples;
    CHECK(lenient(changed).size() > 2);
  }
  SECTION("another layout") {
    MapJob two(options, 2, 0);
    two.load(state);
    CHECK(two.steps(1).front() == after_6);
  }
}

TEST_CASE("CER-20 samples are skipped from the loaded position, or from the start",
          "[protocols][cer]") {
  const RestartableMapOptions options{.samples = 100, .batch_size = 2};
  RestartableMapOptions skipping = options;
  skipping.skip_samples = 10;
  CHECK(stream(skipping, 1).front() == "10 11");
  MapJob job(options, 1, 0);
  job.steps(4);
  MapJob resumed(skipping, 1, 0);
  resumed.load(job.state());
  CHECK(resumed.steps(1).front() == "18 19");
  CHECK(resumed.state().at("samples_streamed") == 20);
  skipping.skip_samples = 0;
  CHECK_THAT(error_of([&] { MapJob(skipping, 1, 0); }, ErrorCode::kInvalidArgument),
             Contains("skip_samples is 0"));
}

}  // namespace energon::testing
