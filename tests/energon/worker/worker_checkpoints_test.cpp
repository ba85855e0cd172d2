// When a worker stores checkpoints, and which ones it keeps.

#include "energon/worker/worker_checkpoints.h"

#include <chrono>
#include <cstdint>

#include <catch2/catch.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/worker/batch_sender.h"
#include "tests/energon/loader/loader_fixture.h"

using energon::CheckpointDue;
using energon::CheckpointInterval;
using energon::LoaderOptions;
using energon::ProducedBatch;
using energon::SentBatches;
using energon::testing::LoaderFixture;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

/// Batches from one checkpoint to the next, with batches and states of these sizes.
std::int64_t distance(std::uint64_t batch_bytes, std::uint64_t state_bytes) {
  CheckpointInterval interval(std::nullopt);
  interval.stored(100, state_bytes, milliseconds(0));
  std::int64_t index = 101;
  while (interval.due({.index = index, .bytes = batch_bytes}) == CheckpointDue::kNo) {
    ++index;
  }
  return index - 100;
}

struct Times {
  std::chrono::nanoseconds batch;  // of replaying one batch
  std::chrono::nanoseconds store;  // of storing the last checkpoint
};

/// Batches of a few bytes from one checkpoint to the next, with a state so large that its bytes
/// alone would not justify one.
std::int64_t distance_in_time(const Times& times) {
  CheckpointInterval interval(std::nullopt);
  interval.stored(100, std::uint64_t{1} << 30, times.store);
  std::int64_t index = 101;
  CheckpointDue due = CheckpointDue::kNo;
  while (index < 10'000 && due == CheckpointDue::kNo) {
    due = interval.due({.index = index++, .bytes = 300, .replay_time = times.batch});
  }
  CHECK(due != CheckpointDue::kYes);
  return due == CheckpointDue::kNo ? -1 : index - 101;
}

}  // namespace

TEST_CASE("a checkpoint follows 64 KiB of batches or 32, and eight times its own bytes",
          "[loader][checkpoints]") {
  CHECK(distance(1 << 20, 500) == 1);
  CHECK(distance(64 << 10, 500) == 1);
  CHECK(distance(32 << 10, 500) == 2);
  CHECK(distance(16 << 10, 500) == 4);
  CHECK(distance(300, 500) == 32);
  CHECK(distance(300, 3000) == 80);
  CHECK(distance(1 << 20, 1 << 20) == 8);
}

TEST_CASE(
    "a checkpoint follows 100 ms of work that a replay repeats, and 20 times what storing took",
    "[loader][checkpoints]") {
  CHECK(distance_in_time({.batch = milliseconds(20), .store = microseconds(10)}) == 5);
  CHECK(distance_in_time({.batch = milliseconds(300), .store = microseconds(10)}) == 1);
  CHECK(distance_in_time({.batch = milliseconds(20), .store = milliseconds(5)}) == 5);
  CHECK(distance_in_time({.batch = milliseconds(20), .store = milliseconds(50)}) == 50);
  CHECK(distance_in_time({.batch = milliseconds(0), .store = milliseconds(0)}) == -1);
}

TEST_CASE("a checkpoint interval set by the user is kept, whatever it costs",
          "[loader][checkpoints]") {
  CheckpointInterval interval(3);
  interval.stored(0, 100, microseconds(1));
  const auto due = [&](std::int64_t index) {
    return interval.due({.index = index, .bytes = 1 << 20, .replay_time = milliseconds(900)});
  };
  CHECK(due(1) == CheckpointDue::kNo);
  CHECK(due(2) == CheckpointDue::kNo);
  CHECK(due(3) == CheckpointDue::kYes);
}

TEST_CASE("time is counted from the last checkpoint", "[loader][checkpoints]") {
  CheckpointInterval interval(std::nullopt);
  interval.stored(0, 1 << 30, microseconds(1));
  const ProducedBatch batch{.index = 1, .bytes = 300, .replay_time = milliseconds(60)};
  CHECK(interval.due(batch) == CheckpointDue::kNo);
  CHECK(interval.due(batch) == CheckpointDue::kIfRoom);
  CHECK(interval.due(batch) == CheckpointDue::kIfRoom);  // there was no space
  interval.stored(3, 1 << 30, microseconds(1));
  CHECK(interval.due(batch) == CheckpointDue::kNo);
}

TEST_CASE("a worker knows how many units the trainer must take for a number of batches",
          "[loader][checkpoints]") {
  SentBatches sent;
  sent.add(0, 5, 40);
  sent.add(2, 6, 70);  // unit 1 was a report
  sent.add(3, 5, 41);
  sent.add(4, 6, 71);
  CHECK(sent.units_until(5, 40) == 0);
  CHECK(sent.units_until(5, 41) == 1);
  CHECK(sent.units_until(5, 42) == 4);
  CHECK(sent.units_until(6, 71) == 3);
  CHECK(sent.units_until(7, 1) == 0);
  sent.taken(1);
  CHECK(sent.size() == 3);
  CHECK(sent.units_until(5, 41) == 0);
  CHECK(sent.units_until(5, 42) == 4);
}

TEST_CASE("with the minimum of checkpoints a worker waits for the trainer, and every save is exact",
          "[loader][checkpoints][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7});
  for (const auto& every : {std::optional<std::int64_t>(1), std::optional<std::int64_t>(3),
                            std::optional<std::int64_t>()}) {
    CAPTURE(every.value_or(-1));
    const LoaderOptions options{.worker_config = {.logical_shards = 6},
                                .checkpoint_every_batches = every,
                                .n_checkpoints = 2};
    const auto expected = energon::testing::take(*fixture.loader(2, options), 90);
    const auto loader = fixture.loader(2, options);
    for (std::size_t taken = 0; taken < 40; ++taken) {
      CAPTURE(taken);
      const auto state = loader->save_state_rank();
      if (taken % 5 == 0) {
        CHECK(energon::testing::take(*energon::testing::resumed(fixture, 2, state, options), 20) ==
              energon::testing::tail(expected, taken, 20));
      }
      REQUIRE(energon::testing::take(*loader, 1) == energon::testing::tail(expected, taken, 1));
    }
  }
}
