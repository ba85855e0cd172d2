#include "wrappers/batching/pack_selection.h"

#include <algorithm>
#include <random>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/call_function.h"

using energon::pack_by_length;
using energon::Sample;
using Lengths = std::vector<std::int64_t>;
using Selection = std::vector<std::vector<std::size_t>>;

namespace {

std::int64_t length_of(const Sample& sample) { return std::stoll(std::string(sample.keys.at(0))); }

Selection select(const Lengths& lengths, std::int64_t max_length) {
  std::vector<Sample> samples(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    samples[i].keys = {std::to_string(lengths[i])};
  }
  return energon::testing::call_function(pack_by_length(length_of, max_length), samples);
}

// A plain first-fit-decreasing.
Selection first_fit_decreasing(const Lengths& lengths, std::int64_t max_length) {
  std::vector<std::size_t> order(lengths.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lengths[a] > lengths[b]; });
  Selection packs;
  Lengths room;
  for (const std::size_t i : order) {
    std::size_t pack = 0;
    while (pack < packs.size() && room[pack] < lengths[i]) {
      ++pack;
    }
    if (pack == packs.size()) {
      packs.emplace_back();
      room.push_back(max_length);
    }
    packs[pack].push_back(i);
    room[pack] -= lengths[i];
  }
  for (auto& pack : packs) {
    std::sort(pack.begin(), pack.end());
  }
  return packs;
}

}  // namespace

TEST_CASE("the longest samples are packed first, each into the first pack with space",
          "[wrappers][pack_selection]") {
  CHECK(select({4, 8, 1, 4, 2, 1}, 10) == Selection{{1, 4}, {0, 2, 3, 5}});
  CHECK(select({10, 10, 0}, 10) == Selection{{0, 2}, {1}});
  CHECK(select({}, 10).empty());
}

TEST_CASE("packs equal those of first-fit-decreasing", "[wrappers][pack_selection]") {
  std::mt19937 draw(3);
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    Lengths lengths(draw() % 200);
    for (std::int64_t& length : lengths) {
      length = draw() % 101;
    }
    CHECK(select(lengths, 100) == first_fit_decreasing(lengths, 100));
  }
}

TEST_CASE("one error names all samples that do not fit into a pack", "[wrappers][pack_selection]") {
  try {
    select({4, 11, 3, -1, 10}, 10);
    FAIL_CHECK("a sample of length 11 was packed");
  } catch (const energon::UnpackableSamples& error) {
    CHECK(error.positions() == std::vector<std::size_t>{1, 3});
    CHECK_THAT(error.what(), Catch::Contains("length 11") && Catch::Contains("0 to 10"));
  }
  CHECK_THROWS_AS(pack_by_length(length_of, 0), energon::Error);
  CHECK_THROWS_AS(pack_by_length(nullptr, 5), energon::Error);
}
