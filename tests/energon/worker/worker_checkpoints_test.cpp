// When a worker stores a checkpoint, and which ones it keeps.

#include <cstdint>

#include <catch2/catch.hpp>

#include "energon/checkpoint/turns.h"
#include "energon/worker/checkpoint_interval.h"
#include "energon/worker/sent_batches.h"
#include "tests/energon/loader/loader_fixture.h"

using energon::CheckpointInterval;
using energon::LoaderOptions;
using energon::SentBatches;
using energon::testing::LoaderFixture;

namespace {

/// Batches from one checkpoint to the next, with batches and states of these sizes.
std::int64_t distance(std::uint64_t batch_bytes, std::uint64_t state_bytes) {
  CheckpointInterval interval(std::nullopt);
  interval.stored(100, state_bytes);
  std::int64_t index = 101;
  while (!interval.due(index, batch_bytes, false)) {
    ++index;
  }
  return index - 100;
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

TEST_CASE("with the fewest checkpoints a worker waits for the trainer, and every save is exact",
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
