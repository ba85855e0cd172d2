#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <catch2/catch.hpp>

#include "energon/stage/call_context.h"
#include "io/error.h"
#include "tests/support/error_of.h"

using energon::CallRng;
using energon::ErrorCode;
using energon::testing::error_of;

static_assert(std::uniform_random_bit_generator<CallRng>);

TEST_CASE("the words are those of MT19937", "[rng]") {
  CallRng ours(5489);
  std::mt19937 standard(5489);
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    REQUIRE(ours() == standard());
  }
}

// Users have trained with these numbers, so they must never change.
TEST_CASE("the draws of a seed are fixed", "[rng]") {
  CallRng rng(7);
  CHECK(rng.uniform() == 0.07630829122554017);
  CHECK(rng.uniform(-1, 1) == 0.559837591517238);
  CHECK(rng.integer(1000) == 115);
  CHECK(rng.chance(0.75));
  CHECK(rng.seed() == 9020361156911232604);
}

TEST_CASE("draws fill their range evenly", "[rng]") {
  CallRng rng(1);
  std::array<int, 7> counts = {};
  double sum = 0;
  int heads = 0;
  constexpr int kDraws = 70'000;
  for (int i = 0; i < kDraws; ++i) {
    CAPTURE(i);
    ++counts.at(static_cast<std::size_t>(rng.integer(7)));
    const double drawn = rng.uniform();
    REQUIRE(drawn >= 0);
    REQUIRE(drawn < 1);
    sum += drawn;
    heads += rng.chance(0.25) ? 1 : 0;
  }
  for (const int count : counts) {
    CAPTURE(count);
    CHECK(std::abs(count - kDraws / 7) < 500);  // five standard deviations
  }
  CHECK(std::abs(sum / kDraws - 0.5) < 0.006);
  CHECK(std::abs(heads - kDraws / 4) < 600);
}

TEST_CASE("a range that needs rejection to be drawn evenly", "[rng]") {
  // In 2^64 values modulo 3 * 2^61, the lowest 2^62 results occur three times, the others twice.
  const std::int64_t n = std::int64_t{3} << 61;
  CallRng rng(2);
  int low = 0;
  constexpr int kDraws = 30'000;
  for (int i = 0; i < kDraws; ++i) {
    CAPTURE(i);
    const std::int64_t drawn = rng.integer(n);
    REQUIRE(drawn >= 0);
    REQUIRE(drawn < n);
    low += drawn < n / 3 * 2 ? 1 : 0;
  }
  CHECK(std::abs(low - kDraws / 3 * 2) < 420);
}

TEST_CASE("std::shuffle takes a CallRng", "[rng]") {
  std::vector<int> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::vector<int> before = numbers;
  CallRng rng(3);
  std::shuffle(numbers.begin(), numbers.end(), rng);
  CHECK(numbers != before);
  CHECK(std::is_permutation(numbers.begin(), numbers.end(), before.begin()));
}

TEST_CASE("impossible draws are refused", "[rng]") {
  CallRng rng(4);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [](const auto& call) { return error_of(call, ErrorCode::kInvalidArgument); };
  CHECK(refused([&] { rng.integer(0); }) == "integer(0): the range [0, 0) is empty");
  CHECK(refused([&] { rng.chance(1.5); }) == "chance(1.5): expected a probability in [0, 1]");
  CHECK(refused([&] { rng.chance(nan); }) == "chance(nan): expected a probability in [0, 1]");
  CHECK(refused([&] { rng.uniform(1, 1); }) ==
        "uniform(1, 1): expected two finite numbers, the lower one first");
  CHECK(refused([&] { rng.uniform(0, nan); }) ==
        "uniform(0, nan): expected two finite numbers, the lower one first");
}
