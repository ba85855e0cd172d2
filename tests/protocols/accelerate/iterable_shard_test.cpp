// ACC-06: the elements of a stream for each process.

#include "protocols/accelerate/iterable_shard.h"

#include <catch2/catch.hpp>

using energon::IterableShard;

namespace {

std::vector<std::int64_t> run(std::int64_t length, const energon::ShardRule& rule) {
  std::int64_t next = 0;
  IterableShard<std::int64_t> shard(
      [&]() -> std::optional<std::int64_t> {
        return next < length ? std::optional(next++) : std::nullopt;
      },
      rule);
  std::vector<std::int64_t> elements;
  while (const auto element = shard.next()) {
    elements.push_back(*element);
  }
  CHECK_FALSE(shard.next());
  return elements;
}

}  // namespace

TEST_CASE("ACC-06 slices of a stream of any length interleave to the stream, repeated at its end",
          "[distributed][acc]") {
  for (std::int64_t length = 0; length <= 40; ++length) {
    CAPTURE(length);
    for (const bool split : {false, true}) {
      CAPTURE(split);
      for (const bool drop : {false, true}) {
        CAPTURE(drop);
        const std::int64_t part = split ? 2 : 4;
        std::vector<std::vector<std::int64_t>> slices;
        for (int process = 0; process < 2; ++process) {
          slices.push_back(run(length, {.processes = 2,
                                        .process = process,
                                        .batch_size = 4,
                                        .split_batches = split,
                                        .drop_last = drop}));
        }
        REQUIRE(slices[0].size() == slices[1].size());
        REQUIRE(static_cast<std::int64_t>(slices[0].size()) % part == 0);
        const std::int64_t round = 2 * part;
        const std::int64_t rounds = drop ? length / round : (length + round - 1) / round;
        REQUIRE(static_cast<std::int64_t>(slices[0].size()) == rounds * part);
        for (std::int64_t i = 0; i < rounds * round; ++i) {
          CAPTURE(i);
          const auto& slice = slices[static_cast<std::size_t>(i % round / part)];
          REQUIRE(slice[static_cast<std::size_t>(i / round * part + i % part)] == i % length);
        }
      }
    }
  }
}

TEST_CASE("slices of a stream need a batch size", "[distributed]") {
  CHECK_THROWS_WITH(run(3, {.processes = 2}), Catch::Contains("needs a batch_size"));
}
