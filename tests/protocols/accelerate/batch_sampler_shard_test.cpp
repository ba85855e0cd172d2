// ACC-01 … ACC-05 and ACC-24: the batches of indices of each process.

#include <numeric>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"
#include "protocols/indexed_source.h"

using energon::BatchSamplerShard;
using energon::Indexes;
using energon::shard_size;
using energon::ShardRule;

namespace {

using Batches = std::vector<Indexes>;

Batches batches_of(std::int64_t count, std::int64_t size) {
  Batches batches;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % size == 0) {
      batches.emplace_back();
    }
    batches.back().push_back(i);
  }
  return batches;
}

Batches run(const Batches& batches, const ShardRule& rule) {
  std::size_t next = 0;
  BatchSamplerShard shard(
      [&]() -> std::optional<Indexes> {
        return next < batches.size() ? std::optional(batches[next++]) : std::nullopt;
      },
      rule);
  Batches got;
  while (auto batch = shard.next()) {
    got.push_back(*batch);
  }
  CHECK_FALSE(shard.next());
  const auto last = batches.empty() ? 0 : static_cast<std::int64_t>(batches.back().size());
  CHECK(shard_size(static_cast<std::int64_t>(batches.size()), last, rule) ==
        static_cast<std::int64_t>(got.size()));
  return got;
}

// The batches of each process from [0, count) in batches of `size`.
std::vector<Batches> deal(std::int64_t count, std::int64_t size, ShardRule rule) {
  std::vector<Batches> all;
  rule.batch_size = size;
  for (rule.process = 0; rule.process < rule.processes; ++rule.process) {
    all.push_back(run(batches_of(count, size), rule));
  }
  return all;
}

std::string show(const Batches& batches) {
  std::string text;
  for (const Indexes& batch : batches) {
    text += fmt::format("[{}]", fmt::join(batch, ","));
  }
  return text;
}

const Batches kVaried = {{0, 1, 2}, {3, 4}, {5, 6, 7, 8}, {9, 10, 11}, {12, 13}};

std::vector<std::string> varied(const Batches& batches, ShardRule rule) {
  std::vector<std::string> all;
  for (rule.process = 0; rule.process < rule.processes; ++rule.process) {
    all.push_back(show(run(batches, rule)));
  }
  return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("ACC-01 whole batches in turn, padded from the first round", "[distributed][acc]") {
  const ShardRule two = {.processes = 2};
  CHECK(show(deal(24, 3, two)[0]) == "[0,1,2][6,7,8][12,13,14][18,19,20]");
  CHECK(show(deal(24, 3, two)[1]) == "[3,4,5][9,10,11][15,16,17][21,22,23]");
  CHECK(show(deal(22, 3, two)[0]) == "[0,1,2][6,7,8][12,13,14][18,19,20]");
  CHECK(show(deal(22, 3, two)[1]) == "[3,4,5][9,10,11][15,16,17][21,0,1]");
  CHECK(show(deal(21, 3, two)[0]) == "[0,1,2][6,7,8][12,13,14][18,19,20]");
  CHECK(show(deal(21, 3, two)[1]) == "[3,4,5][9,10,11][15,16,17][0,1,2]");
  CHECK(show(deal(20, 3, two)[0]) == "[0,1,2][6,7,8][12,13,14][18,19,0]");
  CHECK(show(deal(20, 3, two)[1]) == "[3,4,5][9,10,11][15,16,17][1,2,3]");
  CHECK(show(deal(2, 3, two)[0]) == "[0,1,0]");
  CHECK(show(deal(2, 3, two)[1]) == "[1,0,1]");
  const ShardRule dropping = {.processes = 2, .drop_last = true};
  CHECK(deal(24, 3, dropping) == deal(24, 3, two));
  for (const std::int64_t count : {20, 21, 22}) {
    CAPTURE(count);
    CHECK(show(deal(count, 3, dropping)[0]) == "[0,1,2][6,7,8][12,13,14]");
    CHECK(show(deal(count, 3, dropping)[1]) == "[3,4,5][9,10,11][15,16,17]");
  }
  CHECK(deal(2, 3, dropping) == std::vector<Batches>{{}, {}});
  const auto four = deal(10, 3, {.processes = 4});
  CHECK(show(four[0]) + show(four[1]) + show(four[2]) == "[0,1,2][3,4,5][6,7,8]");
  CHECK(show(four[3]) == "[9,0,1]");
  for (const Batches& batches : deal(1, 3, {.processes = 4})) {
    CAPTURE(batches);
    CHECK(show(batches) == "[0,0,0]");
  }
  CHECK(deal(0, 3, two) == std::vector<Batches>{{}, {}});
}

TEST_CASE("ACC-02 each batch split into equal parts, the last padded from the first",
          "[distributed][acc]") {
  const ShardRule two = {.processes = 2, .split_batches = true};
  const std::string full0 = "[0,1][4,5][8,9][12,13][16,17]";
  const std::string full1 = "[2,3][6,7][10,11][14,15][18,19]";
  CHECK(show(deal(24, 4, two)[0]) == full0 + "[20,21]");
  CHECK(show(deal(24, 4, two)[1]) == full1 + "[22,23]");
  CHECK(show(deal(22, 4, two)[0]) == full0 + "[20,21]");
  CHECK(show(deal(22, 4, two)[1]) == full1 + "[0,1]");
  CHECK(show(deal(21, 4, two)[0]) == full0 + "[20,0]");
  CHECK(show(deal(21, 4, two)[1]) == full1 + "[1,2]");
  CHECK(show(deal(2, 4, two)[0]) == "[0,1]");
  CHECK(show(deal(2, 4, two)[1]) == "[0,1]");
  const ShardRule dropping = {.processes = 2, .split_batches = true, .drop_last = true};
  for (const std::int64_t count : {21, 22}) {
    CAPTURE(count);
    CHECK(show(deal(count, 4, dropping)[0]) == full0);
    CHECK(show(deal(count, 4, dropping)[1]) == full1);
  }
  CHECK(deal(2, 4, dropping) == std::vector<Batches>{{}, {}});
}

TEST_CASE("ACC-03 ends that are not padded", "[distributed][acc]") {
  const ShardRule whole = {.processes = 2, .even_batches = false};
  CHECK(show(deal(22, 3, whole)[0]) == "[0,1,2][6,7,8][12,13,14][18,19,20]");
  CHECK(show(deal(22, 3, whole)[1]) == "[3,4,5][9,10,11][15,16,17][21]");
  CHECK(show(deal(20, 3, whole)[0]) == "[0,1,2][6,7,8][12,13,14][18,19]");
  CHECK(deal(20, 3, whole)[1].size() == 3);
  CHECK(show(deal(21, 3, whole)[0]) == "[0,1,2][6,7,8][12,13,14][18,19,20]");
  CHECK(deal(21, 3, whole)[1].size() == 3);
  const ShardRule split = {.processes = 2, .split_batches = true, .even_batches = false};
  CHECK(show(deal(21, 4, split)[0]) == "[0,1][4,5][8,9][12,13][16,17][20]");
  CHECK(deal(21, 4, split)[1].size() == 5);
}

TEST_CASE("ACC-04 batches of any size are padded with whole batches", "[distributed][acc]") {
  CHECK(varied(kVaried, {.processes = 2}) ==
        Texts{"[0,1,2][5,6,7,8][12,13]", "[3,4][9,10,11][0,1,2]"});
  CHECK(varied(kVaried, {.processes = 2, .even_batches = false}) ==
        Texts{"[0,1,2][5,6,7,8][12,13]", "[3,4][9,10,11]"});
  CHECK(varied(kVaried, {.processes = 2, .drop_last = true}) ==
        Texts{"[0,1,2][5,6,7,8]", "[3,4][9,10,11]"});
  CHECK(varied({{0, 1}}, {.processes = 3}) == Texts{"[0,1]", "[0,1]", "[0,1]"});
  const Batches seven = {{0}, {1, 2}, {3}, {4}, {5}, {6}, {7, 8, 9}};
  CHECK(varied(seven, {.processes = 3}) == Texts{"[0][4][7,8,9]", "[1,2][5][0]", "[3][6][1,2]"});
}

TEST_CASE("ACC-05 splitting needs a batch size that is a multiple of the processes",
          "[distributed][acc]") {
  CHECK_THROWS_WITH(BatchSamplerShard(nullptr, {.processes = 2, .split_batches = true}),
                    Catch::Contains("split_batches needs a batch_size"));
  CHECK_THROWS_WITH(
      BatchSamplerShard(nullptr, {.processes = 2, .batch_size = 3, .split_batches = true}),
      Catch::Contains("multiple of the 2 processes") && Catch::Contains("found 3"));
}

TEST_CASE("ACC-24 dropping the end of a sampler without a length", "[distributed][acc]") {
  // A sampler that yields batches and ends, and has no size.
  for (const std::int64_t count : {0, 1, 5, 6, 7, 11, 12, 13}) {
    CAPTURE(count);
    std::vector<std::size_t> sizes;
    for (int process = 0; process < 2; ++process) {
      CAPTURE(process);
      std::int64_t next = 0;
      BatchSamplerShard shard(
          [&]() -> std::optional<Indexes> {
            if (next >= count) {
              return std::nullopt;
            }
            Indexes batch;
            while (batch.size() < 3 && next < count) {
              batch.push_back(next++);
            }
            return batch;
          },
          {.processes = 2, .process = process, .batch_size = 3, .drop_last = true});
      std::size_t batches = 0;
      while (auto batch = shard.next()) {
        CHECK(batch->size() == 3);
        ++batches;
      }
      sizes.push_back(batches);
    }
    CHECK(sizes[0] == sizes[1]);
    CHECK(sizes[0] == static_cast<std::size_t>(count / 6));
  }
}

TEST_CASE("a short batch in the middle is an error, not a dropped round", "[distributed]") {
  const Batches odd = {{0, 1, 2}, {3, 4}, {5, 6, 7}, {8, 9, 10}};
  CHECK_THROWS_WITH(run(odd, {.processes = 2, .batch_size = 3}),
                    Catch::Contains("only the last batch may be smaller"));
  CHECK_THROWS_WITH(run({{0, 1, 2, 3}}, {.processes = 2, .batch_size = 3}),
                    Catch::Contains("one has 4 indexes"));
}
