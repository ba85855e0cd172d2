#include "energon/order/slice_order.h"

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "energon/order/sharder.h"
#include "energon/order/worker_config.h"
#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/support/dataset_builder.h"

using energon::Order;
using energon::SharderInput;
using energon::ShuffleOverEpochs;
using energon::SliceOrder;
using energon::SliceOrderOptions;
using Mode = ShuffleOverEpochs::Mode;
using Numbers = std::vector<std::int64_t>;

namespace {

struct Setup {
  int logical_shards = 1;
  int logical_shard = 0;
  ShuffleOverEpochs shuffle = {};
  std::int64_t parallel_slices = 16;
  std::optional<std::int64_t> max_samples_per_sequence = std::nullopt;
  Numbers excluded = {};
};

std::unique_ptr<Order> make_order(const Setup& setup) {
  const SharderInput input{.shard_counts = energon::testing::kTens,
                           .logical_shard_count = setup.logical_shards,
                           .max_samples_per_sequence = setup.max_samples_per_sequence};
  return std::make_unique<SliceOrder>(
      slice_bounds(input, setup.logical_shard), setup.excluded,
      SliceOrderOptions{.shuffle_over_epochs = setup.shuffle,
                        .parallel_slices = setup.parallel_slices,
                        .seed = energon::worker_seed(setup.logical_shard, 0)});
}

Numbers take(Order& order, std::size_t count) {
  Numbers result;
  while (result.size() < count) {
    if (const auto ref = order.next()) {
      result.push_back(ref->index);
    } else {
      order.next_epoch();
    }
  }
  return result;
}

}  // namespace

TEST_CASE("the order is Energon's, draw for draw", "[energon][slice_order]") {
  CHECK(take(*make_order({}), 40) == Numbers{10, 40, 11, 20, 50, 41, 42, 30, 31, 43, 0,  1,  21, 32,
                                             51, 52, 33, 34, 53, 44, 35, 45, 46, 54, 47, 48, 12, 2,
                                             49, 3,  22, 36, 13, 23, 37, 24, 14, 15, 25, 16});
  CHECK(take(*make_order({.logical_shards = 2}), 34) ==
        Numbers{10, 11, 12, 0, 20, 1,  21, 13, 22, 23, 14, 15, 24, 2, 3,  25, 16,
                17, 18, 19, 4, 26, 27, 5,  6,  7,  8,  9,  0,  10, 1, 11, 20, 2});
  CHECK(take(*make_order({.logical_shards = 2, .logical_shard = 1}), 20) ==
        Numbers{50, 30, 51, 40, 52, 31, 32, 28, 53, 33, 41, 34, 35, 54, 36, 42, 43, 37, 29, 38});
}

TEST_CASE("an epoch has every sample exactly once", "[energon][slice_order]") {
  for (const std::int64_t parallel : {1, 2, 16}) {
    CAPTURE(parallel);
    const auto order = make_order({.parallel_slices = parallel, .max_samples_per_sequence = 3});
    for (int epoch = 0; epoch < 3; ++epoch) {
      CAPTURE(epoch);
      Numbers seen;
      while (const auto ref = order->next()) {
        CHECK(ref->repetition == static_cast<std::uint32_t>(epoch));
        seen.push_back(ref->index);
      }
      order->next_epoch();
      std::sort(seen.begin(), seen.end());
      Numbers all(55);
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = static_cast<std::int64_t>(i);
      }
      CHECK(seen == all);
    }
  }
}

TEST_CASE("shuffling over n epochs yields every sample n times in one epoch",
          "[energon][slice_order]") {
  const auto order = make_order({.shuffle = {.mode = Mode::kEpochs, .epochs = 3}});
  std::map<std::int64_t, int> count;
  while (const auto ref = order->next()) {
    ++count[ref->index];
  }
  CHECK(count.size() == 55);
  CHECK(
      std::all_of(count.begin(), count.end(), [](const auto& entry) { return entry.second == 3; }));
  CHECK(order->size() == 165);
}

TEST_CASE("drawing with replacement never ends", "[energon][slice_order]") {
  const auto order = make_order({.shuffle = {.mode = Mode::kReplacement}, .parallel_slices = 3});
  CHECK_FALSE(order->size());
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    REQUIRE(order->next());
  }
}

TEST_CASE("excluded samples are skipped but count in the size", "[energon][slice_order]") {
  const Numbers excluded = {0, 7, 54};
  const auto all = take(*make_order({}), 55);
  Numbers expected;
  std::copy_if(all.begin(), all.end(), std::back_inserter(expected),
               [&excluded](std::int64_t index) {
                 return std::find(excluded.begin(), excluded.end(), index) == excluded.end();
               });
  const auto order = make_order({.excluded = excluded});
  CHECK(take(*order, 52) == expected);
  CHECK_FALSE(order->next());
  CHECK(order->size() == 55);
}

TEST_CASE("slice orders conform", "[energon][slice_order][conformance]") {
  const auto setup =
      GENERATE(Setup{}, Setup{.logical_shards = 2, .logical_shard = 1}, Setup{.parallel_slices = 1},
               Setup{.shuffle = {.mode = Mode::kNone}, .parallel_slices = 1},
               Setup{.max_samples_per_sequence = 2},
               Setup{.logical_shards = 4, .shuffle = {.mode = Mode::kEpochs, .epochs = 2}},
               Setup{.shuffle = {.mode = Mode::kReplacement}, .parallel_slices = 4},
               Setup{.logical_shards = 60, .logical_shard = 59});
  energon::testing::check_conformance<Order>([&] { return make_order(setup); }, 130);
}

TEST_CASE("a state with inconsistent numbers is refused", "[energon][slice_order]") {
  const auto order = make_order({});
  take(*order, 3);
  for (const char* field : {"pending_offset", "epoch", "open"}) {
    CAPTURE(field);
    energon::State state = order->save_state();
    for (auto& [name, value] : state.fields) {
      if (name == field) {
        if (auto* integers = std::get_if<Numbers>(&value)) {
          integers->front() = 99;
        } else {
          value = std::int64_t{-1};
        }
      }
    }
    CHECK_THROWS_AS(order->restore_state(state), energon::Error);
  }
}

TEST_CASE("options out of range are refused", "[energon][slice_order]") {
  CHECK_THROWS_AS(make_order({.parallel_slices = 0}), energon::Error);
  CHECK_THROWS_AS(make_order({.shuffle = {.mode = Mode::kNone}, .parallel_slices = 2}),
                  energon::Error);
  CHECK_THROWS_AS(make_order({.shuffle = {.mode = Mode::kEpochs, .epochs = 0}}), energon::Error);
}
