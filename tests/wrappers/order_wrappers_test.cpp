// The wrappers over orders: shuffle buffer, repeat, concat.

#include <algorithm>
#include <set>

#include <catch2/catch.hpp>

#include "energon/sharder.h"
#include "energon/webdataset/slice_order.h"
#include "energon/worker_config.h"
#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/concat.h"
#include "wrappers/repeat.h"
#include "wrappers/shuffle_buffer.h"

using energon::Concat;
using energon::Error;
using energon::Order;
using energon::Repeat;
using energon::ShuffleBuffer;
using energon::testing::check_conformance;
using Numbers = std::vector<std::int64_t>;
using OrderPtr = std::unique_ptr<Order>;

namespace {

OrderPtr leaf(std::optional<std::int64_t> max_samples_per_sequence = std::nullopt,
              int logical_shards = 1, std::uint32_t number = 0) {
  return std::make_unique<energon::SliceOrder>(
      energon::slice_bounds({.shard_counts = energon::testing::kTens,
                             .logical_shard_count = logical_shards,
                             .max_samples_per_sequence = max_samples_per_sequence},
                            logical_shards - 1),
      Numbers{}, energon::SliceOrderOptions{.seed = energon::worker_seed(0, 0), .leaf = number});
}

OrderPtr repeat(OrderPtr inner, std::optional<std::int64_t> repetitions) {
  return std::make_unique<Repeat>(std::move(inner), repetitions);
}

OrderPtr shuffle(OrderPtr inner, std::int64_t size) {
  return std::make_unique<ShuffleBuffer>(std::move(inner), size, energon::worker_seed(0, 0));
}

OrderPtr concat(OrderPtr first, OrderPtr second) {
  std::vector<OrderPtr> inners;
  inners.push_back(std::move(first));
  inners.push_back(std::move(second));
  return std::make_unique<Concat>(std::move(inners));
}

Numbers indexes(Order& order, std::size_t count) {
  Numbers result;
  while (result.size() < count) {
    const auto ref = order.next();
    if (!ref) {
      break;
    }
    result.push_back(ref->index);
  }
  return result;
}

}  // namespace

TEST_CASE("the shuffle buffer draws as Energon's", "[wrappers][shuffle_buffer]") {
  CHECK(indexes(*shuffle(repeat(leaf(2), std::nullopt), 42), 24) ==
        Numbers{14, 19, 44, 25, 31, 22, 27, 5,  40, 8, 23, 38,
                17, 33, 29, 2,  11, 0,  18, 42, 20, 2, 24, 39});
}

TEST_CASE("the shuffle buffer yields every reference of the inner order once",
          "[wrappers][shuffle_buffer]") {
  for (const std::int64_t size : {1, 2, 42, 55, 1000}) {
    auto seen = indexes(*shuffle(leaf(), size), 100);
    CHECK(seen.size() == 55);
    CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 55);
  }
}

TEST_CASE("repeat passes through n times, or for ever", "[wrappers][repeat]") {
  CHECK(indexes(*repeat(leaf(), 3), 1000).size() == 165);
  CHECK(repeat(leaf(), 3)->size() == 165);
  CHECK(indexes(*repeat(leaf(), std::nullopt), 1000).size() == 1000);
  CHECK_FALSE(repeat(leaf(), std::nullopt)->size());
}

TEST_CASE("repeating an empty share for ever ends instead of spinning", "[wrappers][repeat]") {
  const auto order = repeat(leaf(std::nullopt, 60), std::nullopt);
  CHECK_FALSE(order->next());
  CHECK_FALSE(order->next());
  CHECK(order->size() == 0);
}

TEST_CASE("concat yields one order after the other", "[wrappers][concat]") {
  const auto order = concat(leaf(), leaf(std::nullopt, 2, 1));
  std::vector<std::uint32_t> leaves;
  while (const auto ref = order->next()) {
    leaves.push_back(ref->leaf);
  }
  CHECK(leaves.size() == 55 + 27);
  CHECK(std::is_sorted(leaves.begin(), leaves.end()));
  CHECK(order->size() == 82);
}

TEST_CASE("order wrappers conform", "[wrappers][conformance]") {
  const std::vector<std::function<OrderPtr()>> makers = {
      [] { return shuffle(leaf(), 7); },
      [] { return shuffle(leaf(), 100); },
      [] { return shuffle(repeat(leaf(2), std::nullopt), 42); },
      [] { return repeat(leaf(), 2); },
      [] { return repeat(leaf(std::nullopt, 60), std::nullopt); },
      [] { return concat(leaf(), leaf(std::nullopt, 3, 1)); },
      [] { return repeat(shuffle(concat(leaf(std::nullopt, 9), leaf(std::nullopt, 60)), 3), 3); },
  };
  const auto which = GENERATE(range(std::size_t{0}, std::size_t{7}));
  INFO("pipeline " << which);
  check_conformance<Order>(makers[which], 140);
}

TEST_CASE("impossible order wrappers are refused", "[wrappers]") {
  CHECK_THROWS_AS(shuffle(leaf(), 0), Error);
  CHECK_THROWS_AS(repeat(leaf(), 0), Error);
  CHECK_THROWS_AS(Concat({}), Error);
}

TEST_CASE("a buffer larger than this pipeline's is refused", "[wrappers][shuffle_buffer]") {
  const auto large = shuffle(leaf(), 50);
  large->next();
  CHECK_THROWS_WITH(shuffle(leaf(), 10)->restore_state(large->save_state()),
                    Catch::Contains("at most 10"));
}
