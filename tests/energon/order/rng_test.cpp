#include "energon/order/rng.h"

#include <random>

#include <catch2/catch.hpp>

#include "energon/order/worker_config.h"
#include "io/error.h"

using energon::CumulativeWeights;
using energon::Mt19937;
using energon::WorkerRng;

namespace {

constexpr std::uint32_t kWorkerSeed = 273211461;  // of worker 0 without offset

}  // namespace

TEST_CASE("the generator yields the published numbers", "[energon][rng]") {
  Mt19937 generator(kWorkerSeed);
  for (const std::uint32_t expected :
       {1812855090U, 3096276510U, 3867689913U, 1620833732U, 598254159U, 3662651565U}) {
    CAPTURE(expected);
    CHECK(generator() == expected);
  }
}

TEST_CASE("the generator is the standard's MT19937", "[energon][rng]") {
  for (const std::uint32_t seed : {0U, 1U, 5489U, kWorkerSeed, 0xFFFFFFFFU}) {
    CAPTURE(seed);
    Mt19937 ours(seed);
    std::mt19937 standard(seed);
    for (int i = 0; i < 2000; ++i) {
      CAPTURE(i);
      REQUIRE(ours() == standard());
    }
  }
}

TEST_CASE("draws are Energon's", "[energon][rng]") {
  WorkerRng below(kWorkerSeed);
  for (const std::int64_t expected : {0, 0, 3, 2, 9, 5, 8, 5, 3, 4, 7, 4}) {
    CAPTURE(expected);
    CHECK(below.randbelow(10) == expected);
  }
  CHECK(WorkerRng(kWorkerSeed).permutation(10) ==
        std::vector<std::int64_t>{0, 4, 3, 2, 7, 5, 6, 1, 9, 8});
  WorkerRng choice(kWorkerSeed);
  const CumulativeWeights halves(std::vector<float>{0.5F, 0.5F});
  for (const std::size_t expected :
       {0U, 1U, 1U, 1U, 1U, 0U, 1U, 0U, 1U, 1U, 1U, 1U, 0U, 0U, 1U, 0U}) {
    CAPTURE(expected);
    CHECK(choice.choice(halves) == expected);
  }
}

TEST_CASE("a single weight draws nothing from the generator", "[energon][rng]") {
  WorkerRng rng(kWorkerSeed);
  CHECK(rng.choice(CumulativeWeights(std::vector<float>{3})) == 0);
  CHECK(rng.randbelow(10) == 0);
  CHECK(rng.randbelow(10) == 0);
  CHECK(rng.randbelow(10) == 3);
}

TEST_CASE("a draw that is exactly a sum of weights takes the next entry", "[energon][rng]") {
  // As in NumPy: searchsorted(cumsum, value, side="right").
  const CumulativeWeights weights(std::vector<float>{0, 0, 5, 0, 2, 0});
  CHECK(weights.find(0) == 2);
  CHECK(weights.find(4.5F) == 2);
  CHECK(weights.find(5) == 4);
  CHECK(weights.find(5.5F) == 4);
  CHECK(weights.find(7) == 4);
}

TEST_CASE("a generator continues from its saved state, at every position", "[energon][rng]") {
  Mt19937 generator(kWorkerSeed);
  for (int i = 0; i < 1300; ++i) {
    CAPTURE(i);
    Mt19937 resumed(1);
    resumed.restore(generator.save());
    Mt19937 copy = generator;
    REQUIRE(resumed() == copy());
    generator();
  }
}

TEST_CASE("worker seeds are Energon's", "[energon][worker_config]") {
  CHECK(energon::worker_seed(0, 0) == 273211461);
  CHECK(energon::worker_seed(1, 0) == 3250511459);
  CHECK(energon::worker_seed(2, 0) == 2273462765);
  CHECK(energon::worker_seed(3, 0) == 3477560568);
  CHECK(energon::worker_seed(4, 0) == 174914967);
  CHECK(energon::worker_seed(5, 0) == 4179524024);
  CHECK(energon::worker_seed(0, 42) == 1740599905);
  CHECK(energon::worker_seed(1, 42) == 2787106202);
}

TEST_CASE("ENE-24 seeds follow the global worker id and the offset", "[energon][worker_config]") {
  const energon::WorkerConfig one_rank{.rank = 0, .world_size = 1, .num_workers = 4};
  for (int global = 0; global < 4; ++global) {
    CAPTURE(global);
    const energon::WorkerConfig two_ranks{.rank = global / 2, .world_size = 2, .num_workers = 2};
    CHECK(one_rank.logical_shard(global) == two_ranks.logical_shard(global % 2));
    for (int other = 0; other < global; ++other) {
      CAPTURE(other);
      CHECK(energon::worker_seed(global, 0) != energon::worker_seed(other, 0));
    }
    CHECK(energon::worker_seed(global, 0) != energon::worker_seed(global, 1));
  }
}

TEST_CASE("an out-of-range worker configuration is refused with its values",
          "[energon][worker_config]") {
  CHECK_THROWS_WITH(energon::validate({.rank = 2, .world_size = 2}),
                    Catch::Contains("rank is 2") && Catch::Contains("[0, 2)"));
  CHECK_THROWS_AS(energon::validate({.world_size = 0}), energon::Error);
  CHECK_THROWS_AS(energon::validate({.num_workers = -1}), energon::Error);
  CHECK_NOTHROW(energon::validate({.rank = 1, .world_size = 2, .num_workers = 8}));
}
