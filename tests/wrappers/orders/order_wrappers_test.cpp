// The wrappers over orders: shuffle buffer, repeat, concat, blend.

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/order/sharder.h"
#include "energon/order/slice_order.h"
#include "energon/order/worker_config.h"
#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/orders/blend.h"
#include "wrappers/orders/repeat.h"
#include "wrappers/orders/shuffle_buffer.h"

using energon::Blend;
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

OrderPtr repeat(OrderPtr inner, std::optional<double> repetitions) {
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

OrderPtr blend(std::vector<std::pair<OrderPtr, double>> orders) {
  std::vector<energon::WeightedOrder> inners;
  for (auto& [order, weight] : orders) {
    inners.push_back({std::move(order), weight});
  }
  return std::make_unique<Blend>(std::move(inners), energon::worker_seed(0, 0));
}

template <class... Orders>
OrderPtr blend_of(std::vector<double> weights, Orders... orders) {
  std::vector<std::pair<OrderPtr, double>> inners;
  std::size_t i = 0;
  (inners.emplace_back(std::move(orders), weights[i++]), ...);
  return blend(std::move(inners));
}

// The number of references of each leaf in the rest of an epoch, or in its next `count`.
std::vector<std::int64_t> counts_by_leaf(Order& order, std::size_t leaves,
                                         std::size_t count = SIZE_MAX) {
  std::vector<std::int64_t> counts(leaves);
  for (std::size_t i = 0; i < count; ++i) {
    const auto ref = order.next();
    if (!ref) {
      break;
    }
    ++counts.at(ref->leaf);
  }
  return counts;
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
    CAPTURE(size);
    auto seen = indexes(*shuffle(leaf(), size), 100);
    CHECK(seen.size() == 55);
    CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 55);
  }
}

TEST_CASE("an indexed list behaves like a vector from which elements are erased",
          "[wrappers][indexed_list]") {
  std::mt19937 draw(7);
  energon::IndexedList<int> list;
  std::vector<int> expected;
  for (int i = 0; i < 20000; ++i) {
    CAPTURE(i);
    const bool grow = expected.empty() || draw() % 100 < (i / 5000 % 2 == 0 ? 75U : 25U);
    if (grow) {
      list.push_back(i);
      expected.push_back(i);
    } else {
      const std::size_t position = draw() % expected.size();
      REQUIRE(list.take(position) == expected[position]);
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(position));
    }
    REQUIRE(list.size() == expected.size());
  }
  std::vector<int> all;
  list.for_each_block(
      [&all](const std::vector<int>& block) { all.insert(all.end(), block.begin(), block.end()); });
  CHECK(all == expected);
}

TEST_CASE("repeat passes through n times, or forever", "[wrappers][repeat]") {
  CHECK(indexes(*repeat(leaf(), 3), 1000).size() == 165);
  CHECK(repeat(leaf(), 3)->size() == 165);
  CHECK(indexes(*repeat(leaf(), std::nullopt), 1000).size() == 1000);
  CHECK_FALSE(repeat(leaf(), std::nullopt)->size());
}

TEST_CASE("repeating an empty share forever ends instead of spinning", "[wrappers][repeat]") {
  const auto order = repeat(leaf(std::nullopt, 60), std::nullopt);
  CHECK_FALSE(order->next());
  CHECK_FALSE(order->next());
  CHECK(order->size() == 0);
}

TEST_CASE("concat yields one order after another", "[wrappers][concat]") {
  const auto order = concat(leaf(), leaf(std::nullopt, 2, 1));
  std::vector<std::uint32_t> leaves;
  while (const auto ref = order->next()) {
    leaves.push_back(ref->leaf);
  }
  CHECK(leaves.size() == 55 + 27);
  CHECK(std::is_sorted(leaves.begin(), leaves.end()));
  CHECK(order->size() == 82);
}

TEST_CASE("a fraction of a repetition stops after int(size * fraction)", "[wrappers][repeat]") {
  CHECK(indexes(*repeat(leaf(), 0.7), 1000).size() == 38);
  CHECK(indexes(*repeat(leaf(), 1.5), 1000).size() == 55 + 27);
  CHECK(repeat(leaf(), 1.5)->size() == 82);
  CHECK(indexes(*repeat(leaf(), 0.001), 1000).empty());
  const auto order = repeat(leaf(), 1.5);
  for (int epoch = 0; epoch < 3; ++epoch) {
    CAPTURE(epoch);
    const Numbers seen = indexes(*order, 1000);
    CHECK(seen.size() == 82);
    CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 55);
    order->next_epoch();
  }
}

TEST_CASE("a fraction counts samples, whatever epochs are shuffled together",
          "[wrappers][repeat]") {
  const auto over_two = [] {
    return std::make_unique<energon::SliceOrder>(
        Numbers{0, 3, 7}, Numbers{},
        energon::SliceOrderOptions{
            .shuffle_over_epochs = {.mode = energon::ShuffleOverEpochs::Mode::kEpochs, .epochs = 2},
            .seed = 1});
  };
  CHECK(over_two()->size() == 14);
  CHECK(indexes(*repeat(over_two(), 0.5), 100).size() == 3);
  CHECK(indexes(*repeat(over_two(), 1.5), 100).size() == 14 + 3);
}

TEST_CASE("a leaf whose fraction is zero here is drawn once, as in Energon", "[wrappers][blend]") {
  // 0.3 of 2 samples: the first draw uses a random number and ends the leaf.
  const auto two = [] {
    return std::make_unique<energon::SliceOrder>(Numbers{0, 2}, Numbers{},
                                                 energon::SliceOrderOptions{.seed = 1, .leaf = 1});
  };
  const auto with = blend_of({0.6, 55}, repeat(two(), 0.3), leaf());
  const auto ended = with->save_state().integers("exhausted");
  CHECK(ended == std::vector<std::int64_t>{0, 0});
  CHECK(indexes(*with, 1000).size() == 55);
  CHECK(with->save_state().integers("exhausted") == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("more slices than can be shuffled at once are refused", "[wrappers][slice_order]") {
  CHECK_THROWS_WITH(
      energon::SliceOrder(
          Numbers{0, 3, 7}, Numbers{},
          energon::SliceOrderOptions{
              .shuffle_over_epochs = {.mode = energon::ShuffleOverEpochs::Mode::kEpochs,
                                      .epochs = 1'000'000'000'000}}),
      Catch::Contains("at most"));
}

TEST_CASE("meaningless repetitions are refused", "[wrappers][repeat]") {
  for (const double repetitions : {0.0, -1.0, std::nan("")}) {
    CAPTURE(repetitions);
    CHECK_THROWS_WITH(repeat(leaf(), repetitions), Catch::Contains("must be positive"));
  }
  CHECK_THROWS_WITH(repeat(leaf(), 1e18), Catch::Contains("must be at most 1e+15"));
  CHECK_THROWS_WITH(repeat(repeat(leaf(), std::nullopt), 1.5), Catch::Contains("endless order"));
}

TEST_CASE("a weighted blend draws as Energon's", "[wrappers][blend]") {
  // choice_idx([.5, .5]) of the seed's first 16 draws, energon.md 2.2.
  const auto order =
      blend_of({0.5, 0.5}, repeat(leaf(), std::nullopt), repeat(leaf({}, 1, 1), std::nullopt));
  std::vector<std::uint32_t> leaves;
  for (int i = 0; i < 16; ++i) {
    leaves.push_back(order->next()->leaf);
  }
  CHECK(leaves == std::vector<std::uint32_t>{0, 1, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 0, 0, 1, 0});
  CHECK_FALSE(order->size());
}

TEST_CASE("a weighted blend keeps its proportions", "[wrappers][blend]") {
  const auto order =
      blend_of({2, 8}, repeat(leaf(), std::nullopt), repeat(leaf({}, 1, 1), std::nullopt));
  const auto counts = counts_by_leaf(*order, 2, 1000);
  CHECK((counts[0] >= 150 && counts[0] <= 250));
  CHECK(counts[0] + counts[1] == 1000);
}

TEST_CASE("an epochized blend is exact in every epoch", "[wrappers][blend]") {
  const auto order = blend_of({0.7 * 55, 1.5 * 55, 2 * 55}, repeat(leaf(), 0.7),
                              repeat(leaf({}, 1, 1), 1.5), repeat(leaf({}, 1, 2), 2));
  CHECK(order->size() == 38 + 82 + 110);
  for (int epoch = 0; epoch < 3; ++epoch) {
    CAPTURE(epoch);
    CHECK(counts_by_leaf(*order, 3) == std::vector<std::int64_t>{38, 82, 110});
    CHECK_FALSE(order->next());
    order->next_epoch();
  }
}

TEST_CASE("a blend skips leaves without samples on this logical shard", "[wrappers][blend]") {
  const auto order = blend_of({1, 1}, repeat(leaf({}, 60), std::nullopt), leaf({}, 1, 1));
  CHECK(counts_by_leaf(*order, 2) == std::vector<std::int64_t>{0, 55});
  const auto nothing = blend_of({1, 1}, leaf({}, 60), leaf({}, 60, 1));
  CHECK_FALSE(nothing->next());
  CHECK(nothing->size() == 0);
}

TEST_CASE("impossible weights are refused", "[wrappers][blend]") {
  for (const double weight : {0.0, -1.0, std::nan("")}) {
    CAPTURE(weight);
    CHECK_THROWS_WITH(blend_of({1, weight}, leaf(), leaf()),
                      Catch::Contains("weight 1") && Catch::Contains("must be positive"));
  }
  for (const double weight : {1e-60, 1e300}) {
    CAPTURE(weight);
    CHECK_THROWS_WITH(blend_of({1, weight}, leaf(), leaf()),
                      Catch::Contains("weight 1") && Catch::Contains("expected 1.4013e-45 to"));
  }
}

TEST_CASE("order wrappers conform", "[wrappers][conformance]") {
  const std::vector<std::function<OrderPtr()>> makers = {
      [] { return shuffle(leaf(), 7); },
      [] { return shuffle(leaf(), 100); },
      [] { return shuffle(repeat(leaf(2), std::nullopt), 42); },
      [] { return repeat(leaf(), 2); },
      [] { return repeat(leaf(std::nullopt, 60), std::nullopt); },
      [] { return concat(leaf(), leaf(std::nullopt, 3, 1)); },
      [] { return repeat(leaf(), 0.7); },
      [] { return repeat(leaf(std::nullopt, 3), 2.4); },
      [] {
        return blend_of({2, 1}, repeat(leaf(), std::nullopt),
                        repeat(leaf(std::nullopt, 1, 1), std::nullopt));
      },
      [] {
        return repeat(blend_of({55, 27.5, 1}, leaf(std::nullopt, 2), repeat(leaf(2, 4, 1), 1.5),
                               leaf(std::nullopt, 60, 2)),
                      std::nullopt);
      },
      [] { return repeat(shuffle(concat(leaf(std::nullopt, 9), leaf(std::nullopt, 60)), 3), 3); },
  };
  const auto which = GENERATE(range(std::size_t{0}, std::size_t{11}));
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
