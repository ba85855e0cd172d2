// Cookers that skip samples, in blends: the proportions hold for cooked samples, as in Energon,
// which cooks before blending.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/order/sharder.h"
#include "energon/order/slice_order.h"
#include "tests/recipes/streams.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/orders/blend.h"
#include "wrappers/orders/repeat.h"
#include "wrappers/recipe/pipeline.h"

using energon::BlendBy;
using energon::CookContext;
using energon::Mixing;
using energon::Order;
using energon::PipelineData;
using energon::PipelineFactory;
using energon::Sample;
using energon::SampleRef;
using energon::State;
using energon::testing::Keys;
using energon::testing::MemoryLeaf;
using energon::testing::Stream;

namespace {

// The samples of leaf "a" that the cooker skips: every other one, in runs.
bool is_left_out(std::int64_t leaf, std::int64_t index) { return leaf == 0 && index % 8 < 4; }

Sample cook(Sample crude, CookContext& /*context*/) {
  const std::string key(crude.keys.at(0));
  if (is_left_out(key[0] - 'a', std::stoll(key.substr(1)))) {
    throw energon::SkipSample();
  }
  return crude;
}

const std::vector<std::int64_t> kShards = {40, 24, 16};

PipelineData two_leaves(Mixing mixing, double weight_of_b = 1) {
  PipelineData data({std::make_shared<const MemoryLeaf>("a", kShards),
                     std::make_shared<const MemoryLeaf>("b", kShards)});
  data.mixing = mixing;
  data.leaves[1].weight = weight_of_b;
  return data;
}

PipelineFactory cooked(PipelineData data, energon::TrainOptions options,
                       const energon::CookFunction& function = cook) {
  options.task_encoder.cookers = {{.cook = function}};
  options.task_encoder.batch = [](std::span<Sample>) { return energon::Mapping(); };
  return energon::train_pipeline(std::move(data), std::move(options));
}

Sample cook_nothing_of_a(Sample crude, CookContext& /*context*/) {
  if (crude.keys.at(0)[0] == 'a') {
    throw energon::SkipSample();
  }
  return crude;
}

/// Keys of the first `count` samples, or of an epoch.
Keys delivered(const PipelineFactory& make, std::size_t count) {
  Stream stream(make);
  Keys keys;
  while (keys.size() < count) {
    const std::optional<Sample> item = stream.next();
    if (!item) {
      break;
    }
    keys.insert(keys.end(), item->keys.begin(), item->keys.end());
  }
  keys.resize(std::min(keys.size(), count));
  return keys;
}

/// An order without the samples that the cooker skips, as if samples were cooked when they are
/// drawn.
class Cooked final : public Order {
 public:
  explicit Cooked(std::unique_ptr<Order> inner) : inner_(std::move(inner)) {}

  std::optional<SampleRef> next() override {
    while (auto ref = inner_->next()) {
      if (!is_left_out(ref->leaf, ref->index)) {
        return ref;
      }
    }
    return std::nullopt;
  }
  void next_epoch() override { inner_->next_epoch(); }
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::optional<std::int64_t> samples_per_pass() const override {
    return inner_->samples_per_pass();
  }
  State save_state() const override { return inner_->save_state(); }
  energon::Config config() const override { return inner_->config(); }

 private:
  void check_state(const State&, std::vector<std::string>&) const override {}
  void apply_state(const State&) override {}

  const std::unique_ptr<Order> inner_;
};

/// Energon's order: cooked, then blended.
Keys cooked_first(Mixing mixing, BlendBy blend_by, double weight_of_b, std::size_t count) {
  const std::uint32_t seed = energon::worker_seed(0, 0);
  std::vector<std::unique_ptr<Order>> orders;
  for (std::uint32_t leaf = 0; leaf < 2; ++leaf) {
    auto order = std::make_unique<energon::SliceOrder>(
        energon::slice_bounds({.shard_counts = kShards, .logical_shard_count = 1}, 0),
        std::vector<std::int64_t>{}, energon::SliceOrderOptions{.seed = seed, .leaf = leaf});
    orders.push_back(std::make_unique<Cooked>(std::move(order)));
    if (mixing == Mixing::kWeighted) {
      orders[leaf] = std::make_unique<energon::Repeat>(std::move(orders[leaf]), std::nullopt);
    }
  }
  std::unique_ptr<Order> blend;
  if (blend_by == BlendBy::kShare) {
    std::vector<energon::SharedOrder> inners;
    inners.push_back({std::move(orders[0]), 1});
    inners.push_back({std::move(orders[1]), weight_of_b});
    blend = std::make_unique<energon::ShareBlend>(std::move(inners));
  } else {
    const bool is_weighted = mixing == Mixing::kWeighted;
    std::vector<energon::WeightedOrder> inners;
    inners.push_back({std::move(orders[0]), is_weighted ? 1.0 : 80.0});
    inners.push_back({std::move(orders[1]), is_weighted ? weight_of_b : 80.0});
    blend = std::make_unique<energon::Blend>(std::move(inners), seed);
  }
  Keys keys;
  while (keys.size() < count) {
    const auto ref = blend->next();
    if (!ref) {
      break;
    }
    keys.push_back((ref->leaf == 0 ? "a" : "b") + std::to_string(ref->index));
  }
  return keys;
}

double share_of_a(const Keys& keys) {
  return static_cast<double>(
             std::ranges::count_if(keys, [](const std::string& key) { return key[0] == 'a'; })) /
         static_cast<double>(keys.size());
}

}  // namespace

TEST_CASE("a cooker that skips half of one side does not shift a weighted blend",
          "[recipes][mixture]") {
  const auto shuffle_buffer_size = GENERATE(std::int64_t{0}, std::int64_t{20});
  const auto make = cooked(two_leaves(Mixing::kWeighted),
                           {.batch_size = 10, .shuffle_buffer_size = shuffle_buffer_size});
  CHECK(share_of_a(delivered(make, 4000)) == Approx(0.5).margin(0.025));
}

TEST_CASE("without a shuffle buffer, the order equals that of cooking before blending",
          "[recipes][mixture]") {
  const double weight_of_b = GENERATE(1.0, 3.0, 0.2);
  const auto blend_by = GENERATE(BlendBy::kDraw, BlendBy::kShare);
  const Keys expected = cooked_first(Mixing::kWeighted, blend_by, weight_of_b, 600);
  for (const std::optional<std::int64_t> batch_size :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(1),
        std::optional<std::int64_t>(7), std::optional<std::int64_t>(50)}) {
    if (blend_by == BlendBy::kShare && batch_size.value_or(1) > 1) {
      continue;  // shares are counted when a batch is drawn, before its samples are cooked
    }
    INFO("batches of " << batch_size.value_or(0));
    CHECK(delivered(cooked(two_leaves(Mixing::kWeighted, weight_of_b),
                           {.batch_size = batch_size, .blend_by = blend_by}),
                    600) == expected);
  }
}

TEST_CASE("shares hold for cooked samples", "[recipes][mixture]") {
  const auto make =
      cooked(two_leaves(Mixing::kWeighted, 3), {.batch_size = 10, .blend_by = BlendBy::kShare});
  CHECK(share_of_a(delivered(make, 4000)) == Approx(0.25).margin(0.005));
}

TEST_CASE("an epochized blend has every cooked sample once, in Energon's order",
          "[recipes][mixture]") {
  const Keys expected = cooked_first(Mixing::kEpochized, BlendBy::kDraw, 1, 1000);
  REQUIRE(expected.size() == 120);
  CHECK(delivered(cooked(two_leaves(Mixing::kEpochized), {.repeat = false}), 1000) == expected);
  Keys in_batches =
      delivered(cooked(two_leaves(Mixing::kEpochized), {.batch_size = 7, .repeat = false}), 1000);
  Keys sorted = expected;
  std::ranges::sort(sorted);
  std::ranges::sort(in_batches);
  CHECK(in_batches == sorted);
}

TEST_CASE("a leaf without cooked samples leaves its share to the others", "[recipes][mixture]") {
  const auto make =
      cooked(two_leaves(Mixing::kWeighted), {.batch_size = 10},
             [](Sample crude, CookContext& /*context*/) {
               return crude.keys[0][0] == 'a' ? throw energon::SkipSample() : std::move(crude);
             });
  CHECK(share_of_a(delivered(make, 500)) == 0);
}

TEST_CASE("the search for a sample is given up after a thousand skipped samples",
          "[recipes][mixture]") {
  PipelineData data({std::make_shared<const MemoryLeaf>("a", std::vector<std::int64_t>{50'000}),
                     std::make_shared<const MemoryLeaf>("b", std::vector<std::int64_t>{100})});
  data.mixing = Mixing::kWeighted;
  std::int64_t calls = 0;
  const auto make =
      cooked(std::move(data), {.batch_size = 10}, [&calls](Sample crude, CookContext& /*context*/) {
        ++calls;
        return crude.keys[0][0] == 'a' ? throw energon::SkipSample() : std::move(crude);
      });
  CHECK(share_of_a(delivered(make, 10)) == 0);
  CHECK(calls < 60'000);
  CHECK(calls > 1'000);
}

TEST_CASE("a blend whose cooker skips samples resumes exactly where it was saved",
          "[recipes][mixture][fork]") {
  const int num_workers = GENERATE(0, 2);
  const auto make = cooked(two_leaves(Mixing::kWeighted, 2),
                           {.batch_size = 3, .shuffle_buffer_size = 9, .virtual_epoch_length = 25});
  std::vector<std::size_t> saves(20);
  for (std::size_t i = 0; i < saves.size(); ++i) {
    saves[i] = i;
  }
  energon::testing::check_resumes(make, {.worker_config = {.num_workers = num_workers}}, saves, 30);
}

TEST_CASE("a leaf without usable samples does not end the others", "[recipes][cook]") {
  const std::vector<std::int64_t> shards = {500, 500};
  PipelineData data({std::make_shared<const MemoryLeaf>("a", shards),
                     std::make_shared<const MemoryLeaf>("b", shards)});
  data.mixing = Mixing::kWeighted;
  energon::TrainOptions options;
  options.batch_size = 64;
  const Keys keys = delivered(cooked(data, options, cook_nothing_of_a), 640);
  CHECK(keys.size() == 640);
  CHECK(std::ranges::all_of(keys, [](const std::string& key) { return key[0] == 'b'; }));
}
