#include "energon/order/sharder.h"

#include <random>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/dataset_builder.h"

using energon::divide_samples;
using energon::generalized_bit_reversal;
using energon::SharderInput;
using energon::slice_bounds;
using Numbers = std::vector<std::int64_t>;

namespace {

const Numbers& tens() { return energon::testing::kTens; }

Numbers lengths(const SharderInput& input) {
  Numbers result;
  for (const auto& [begin, end] : divide_samples(input)) {
    CAPTURE(begin, end);
    result.push_back(end - begin);
  }
  return result;
}

Numbers begins(const SharderInput& input) {
  Numbers result;
  for (const auto& [begin, end] : divide_samples(input)) {
    CAPTURE(begin, end);
    result.push_back(begin);
  }
  return result;
}

}  // namespace

TEST_CASE("the generalized bit reversal gives the published orders", "[energon][sharder]") {
  CHECK(generalized_bit_reversal(1) == Numbers{0});
  CHECK(generalized_bit_reversal(2) == Numbers{0, 1});
  CHECK(generalized_bit_reversal(5) == Numbers{0, 2, 1, 3, 4});
  CHECK(generalized_bit_reversal(6) == Numbers{0, 3, 1, 4, 2, 5});
  CHECK(generalized_bit_reversal(7) == Numbers{0, 3, 1, 5, 2, 4, 6});
  CHECK(generalized_bit_reversal(12) == Numbers{0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11});
  CHECK(generalized_bit_reversal(16) ==
        Numbers{0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15});
}

TEST_CASE("samples are divided as in the published vectors", "[energon][sharder]") {
  CHECK(lengths({.shard_counts = tens(), .logical_shard_count = 2}) == Numbers{28, 27});
  CHECK(lengths({.shard_counts = tens(), .logical_shard_count = 3}) == Numbers{19, 18, 18});
  CHECK(begins({.shard_counts = tens(), .logical_shard_count = 4}) == Numbers{0, 14, 28, 42});
  CHECK(begins({.shard_counts = tens(), .logical_shard_count = 4, .rotation_offset = 1}) ==
        Numbers{0, 13, 27, 41});
  CHECK(lengths({.shard_counts = tens(), .logical_shard_count = 6}) == Numbers{10, 9, 9, 9, 9, 9});
  const Numbers three = {3};
  CHECK(lengths({.shard_counts = three, .logical_shard_count = 8}) ==
        Numbers{1, 0, 1, 0, 1, 0, 0, 0});
}

TEST_CASE("slices are cut as in the published vectors", "[energon][sharder]") {
  CHECK(slice_bounds({.shard_counts = tens(), .logical_shard_count = 2}, 0) ==
        Numbers{0, 10, 20, 28});
  CHECK(slice_bounds({.shard_counts = tens(), .logical_shard_count = 2}, 1) ==
        Numbers{28, 30, 40, 50, 55});
  CHECK(slice_bounds(
            {.shard_counts = tens(), .logical_shard_count = 2, .max_samples_per_sequence = 4}, 0) ==
        Numbers{0, 5, 10, 15, 20, 24, 28});
  CHECK(slice_bounds(
            {.shard_counts = tens(), .logical_shard_count = 2, .max_samples_per_sequence = 4}, 1) ==
        Numbers{28, 30, 35, 40, 45, 50, 55});
  const Numbers hundred = {100};
  CHECK(slice_bounds({.shard_counts = hundred, .max_samples_per_sequence = 30}, 0) ==
        Numbers{0, 33, 66, 100});
  CHECK(slice_bounds({.shard_counts = hundred, .max_samples_per_sequence = 70}, 0) ==
        Numbers{0, 100});
}

TEST_CASE("every sample belongs to exactly one logical shard, shares differ by at most one",
          "[energon][sharder]") {
  for (const int count : {1, 2, 3, 5, 7, 16, 55, 60, 117}) {
    CAPTURE(count);
    for (const std::int64_t rotation : {0, 1, 13}) {
      CAPTURE(rotation);
      std::int64_t expected_begin = 0;
      for (const auto& [begin, end] : divide_samples({.shard_counts = tens(),
                                      .logical_shard_count = count,
                                      .rotation_offset = rotation})) {
        CAPTURE(begin, end);
        CHECK(begin == expected_begin);
        CHECK((end - begin == 55 / count || end - begin == 55 / count + 1));
        expected_begin = end;
      }
      CHECK(expected_begin == 55);
    }
  }
}

TEST_CASE("a logical shard without samples has one bound", "[energon][sharder]") {
  const Numbers three = {3};
  CHECK(slice_bounds({.shard_counts = three, .logical_shard_count = 8}, 1).size() == 1);
}

TEST_CASE("impossible divisions are refused", "[energon][sharder]") {
  CHECK_THROWS_AS(divide_samples({.shard_counts = tens(), .begin = 3, .end = 56}), energon::Error);
  CHECK_THROWS_AS(divide_samples({.shard_counts = tens(), .logical_shard_count = 0}),
                  energon::Error);
  CHECK_THROWS_AS(slice_bounds({.shard_counts = tens(), .max_samples_per_sequence = 0}, 0),
                  energon::Error);
  CHECK_THROWS_AS(slice_bounds({.shard_counts = tens(), .logical_shard_count = 2}, 2),
                  energon::Error);
}

TEST_CASE("the share of one logical shard is its part of the division", "[energon][sharder]") {
  std::mt19937 random(11);
  const auto below = [&random](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int round = 0; round < 300; ++round) {
    Numbers counts;
    Numbers ends;
    for (std::int64_t i = 0; i < 1 + below(8); ++i) {
      counts.push_back(below(9));
      ends.push_back((ends.empty() ? 0 : ends.back()) + counts.back());
    }
    SharderInput input{
        .shard_counts = counts,
        .begin = below(static_cast<std::uint32_t>(ends.back()) + 1),
        .logical_shard_count = 1 + static_cast<int>(below(12)),
        .division = below(3) == 0 ? energon::Division::kEnergon : energon::Division::kEven,
        .rotation_offset = below(30) - 10};
    if (below(2) == 0) {
      input.max_samples_per_sequence = 1 + below(3);
    }
    const auto ranges = divide_samples(input);
    for (int shard = 0; shard < input.logical_shard_count; ++shard) {
      INFO("round " << round << ", logical shard " << shard);
      input.shard_ends = {};
      REQUIRE(share_of_samples(input, shard) == ranges[static_cast<std::size_t>(shard)]);
      const Numbers bounds = slice_bounds(input, shard);
      CHECK(bounds.front() == ranges[static_cast<std::size_t>(shard)].first);
      CHECK(bounds.back() == ranges[static_cast<std::size_t>(shard)].second);
      input.shard_ends = ends;
      REQUIRE(slice_bounds(input, shard) == bounds);
    }
  }
}
