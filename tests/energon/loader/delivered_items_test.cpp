// The samples in the steps of a saved job, computed without its functions and with them.

#include "energon/loader/delivered_items.h"

#include <functional>
#include <utility>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/recipe/order_pipeline.h"

namespace {

using energon::CallContext;
using energon::DeliveredItem;
using energon::DeliveredItems;
using energon::LoaderOptions;
using energon::Mapping;
using energon::PipelineFactory;
using energon::Sample;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::TrainOptions;
using energon::WorkerConfig;
using energon::testing::LoaderFixture;
using energon::testing::numbered_key;

// An encoder whose functions make one item from one item.
energon::TaskEncoder encoder() {
  const auto change = [](Sample sample, CallContext&) {
    sample.fields = {{"seen", std::int64_t{1}}};
    return sample;
  };
  return {.cookers = {{.cook = [](Sample sample, energon::CookContext&) { return sample; }}},
          .encode_sample = energon::MapFunction(change),
          .batch = [](std::span<Sample>) { return Mapping(); },
          .encode_batch = energon::MapFunction(change)};
}

TrainOptions order() {
  return {.batch_size = 3, .shuffle_buffer_size = 9, .parallel_slices = 3, .repeat = false};
}

std::vector<std::string> keys_of(const DeliveredItem& item) {
  std::vector<std::string> keys;
  for (const energon::SampleRef& sample : item.samples) {
    keys.push_back(numbered_key(sample.index));
  }
  return keys;
}

// The items equal those that a job with `config` delivers, over more than an epoch.
void check_items(const PipelineFactory& pipeline, const WorkerConfig& config,
                 const std::function<PipelineFactory(const SavableDataLoaderState&)>& order_of) {
  CAPTURE(config.rank, config.num_workers, config.logical_shards.value_or(0));
  SavableDataLoader loader(pipeline, {.worker_config = config});
  std::vector<Sample> delivered;
  while (delivered.size() < 25) {
    if (auto batch = loader.next()) {
      delivered.push_back(std::move(*batch));
    }
  }
  const SavableDataLoaderState state = loader.save_state_rank();
  DeliveredItems items(state, order_of(state));
  for (std::size_t step = 0; step < delivered.size(); ++step) {
    const auto item = items.next();
    REQUIRE(item);
    CHECK(item->step == static_cast<std::int64_t>(step));
    CHECK(item->restore_key == delivered[step].restore_key);
    CHECK(keys_of(*item) == delivered[step].keys);
  }
  const auto next = items.next();  // items that it has not delivered yet
  auto batch = loader.next();
  batch = batch ? std::move(batch) : loader.next();
  CHECK(next->restore_key == batch->restore_key);
}

}  // namespace

TEST_CASE("the items of a job with functions are computed without them", "[loader][items][fork]") {
  TrainOptions options = order();
  options.task_encoder = encoder();
  const LoaderFixture fixture(options);
  const auto order_of = [&](const SavableDataLoaderState& state) {
    return order_pipeline({fixture.dataset()}, order(), state.config);
  };
  for (const int workers : {0, 2}) {
    check_items(fixture.pipeline(), {.rank = 1, .world_size = 2, .num_workers = workers}, order_of);
    check_items(fixture.pipeline(),
                {.rank = 0, .world_size = 2, .num_workers = workers, .logical_shards = 6},
                order_of);
  }
}

TEST_CASE("remainders, single samples and virtual epochs are taken over from the state",
          "[loader][items]") {
  TrainOptions options = order();
  options.task_encoder = encoder();
  TrainOptions ours = order();
  bool is_replayed = false;  // the order alone does not show what earlier epochs left out
  SECTION("remainders that are dropped") {
    options.remainder = energon::BatchOptions::Remainder::kDrop;
    is_replayed = true;
  }
  SECTION("samples that are not batched") {
    options.batch_size.reset();
    options.task_encoder.encode_batch = {};
  }
  SECTION("virtual epochs") {
    options.virtual_epoch_length = ours.virtual_epoch_length = 7;
    options.repeat = ours.repeat = true;
  }
  const LoaderFixture fixture(options);
  check_items(fixture.pipeline(), {}, [&](const SavableDataLoaderState& state) {
    return is_replayed ? replay_pipeline({fixture.dataset()}, ours, state.config)
                       : order_pipeline({fixture.dataset()}, ours, state.config);
  });
}

TEST_CASE("a validation job's items are computed without its functions", "[loader][items]") {
  const LoaderFixture fixture({});
  const auto pipeline = energon::val_pipeline(
      {fixture.dataset()}, {.task_encoder = encoder(), .batch_size = 2, .limit = 20});
  check_items(pipeline, {}, [&](const SavableDataLoaderState& state) {
    return replay_pipeline({fixture.dataset()}, energon::ValOptions{.batch_size = 2, .limit = 20},
                           state.config);
  });
}

TEST_CASE("another order is refused with all differences", "[loader][items]") {
  TrainOptions options = order();
  options.task_encoder = encoder();
  const LoaderFixture fixture(options);
  const SavableDataLoaderState state = fixture.loader(0)->save_state_rank();
  TrainOptions other = order();
  other.shuffle_buffer_size = 8;
  other.batch_size = 4;
  CHECK_THROWS_WITH(
      DeliveredItems(state, order_pipeline({fixture.dataset()}, other, state.config)),
      Catch::Contains("batch_size: 4, expected 3") && Catch::Contains("8, expected 9"));
  const LoaderFixture larger(options, {20, 40});
  CHECK_THROWS_WITH(
      DeliveredItems(state, order_pipeline({larger.dataset()}, order(), state.config)),
      Catch::Contains("shard"));
}

TEST_CASE("a sample left out of an epoch that a limit ended is noticed", "[loader][items]") {
  // The next epoch is at the same place, after the same number of samples.
  const LoaderFixture fixture({});
  energon::TaskEncoder skipping = encoder();
  skipping.encode_sample = energon::MapFunction([](Sample sample, CallContext&) {
    if (sample.keys.front() == numbered_key(4)) {
      throw energon::SkipSample();
    }
    return sample;
  });
  const auto pipeline_with = [&](energon::TaskEncoder of) {
    return energon::val_pipeline({fixture.dataset()},
                                 {.task_encoder = std::move(of), .batch_size = 2, .limit = 4});
  };
  SavableDataLoader loader(pipeline_with(skipping));
  std::vector<Sample> delivered;
  for (int i = 0; i < 6; ++i) {  // the fifth is the end of the epoch
    if (auto batch = loader.next()) {
      delivered.push_back(std::move(*batch));
    }
  }
  REQUIRE(delivered.size() == 5);
  const SavableDataLoaderState state = loader.save_state_rank();
  int different = 0;
  const auto read_all = [&](const PipelineFactory& pipeline) {
    DeliveredItems items(state, pipeline);
    for (const Sample& batch : delivered) {
      const auto item = items.next();
      if (item->restore_key != batch.restore_key) {
        ++different;
      }
    }
  };
  read_all(pipeline_with(skipping));
  CHECK(different == 0);
  CHECK_THROWS_WITH(read_all(pipeline_with(encoder())), Catch::Contains("different samples"));
  const PipelineFactory order = order_pipeline(
      {fixture.dataset()}, energon::ValOptions{.batch_size = 2, .limit = 4}, state.config);
  DeliveredItems items(state, order);
  CHECK_THROWS_WITH(
      [&] {
        while (items.next()) {
        }
      }(),
      Catch::Contains("its epochs left out"));
}

TEST_CASE("if functions decide, the stage is named, and the job's own pipeline is needed",
          "[loader][items]") {
  TrainOptions options = order();
  std::string stage;
  SECTION("packing") {
    stage = "Packing";
    options.packing_buffer_size = 6;
    options.task_encoder.select_samples_to_pack = [](std::span<const Sample> samples) {
      std::vector<std::vector<std::size_t>> packs;
      for (std::size_t i = 0; i < samples.size(); ++i) {
        if (i % 2 == 0) {
          packs.emplace_back();
        }
        packs.back().push_back(i);
      }
      return packs;
    };
    options.task_encoder.postencode_sample = [](Sample sample, CallContext&) { return sample; };
    options.task_encoder.pack_selected_samples = [](std::span<Sample>, CallContext&) {
      return Mapping();
    };
  }
  SECTION("sort pools") {
    stage = "SortPool";
    options.sort_pool_size = 7;
    options.task_encoder.cost = [](const Sample& sample) {
      return static_cast<double>(std::stoll(std::string(sample.keys.front())) % 4);
    };
  }
  SECTION("groups") {
    stage = "GroupBatch";
    options.task_encoder.batch_group_criterion = [](const Sample& sample) {
      return energon::BatchGroup{.group = std::string(sample.keys.front().substr(5))};
    };
  }
  SECTION("flat maps") {
    stage = "FlatMap";
    options.task_encoder.encode_sample = energon::FlatMapFunction([](Sample sample, CallContext&) {
      return [sample = std::move(sample), given = false]() mutable {
        return std::exchange(given, true) ? std::nullopt : std::optional(sample);
      };
    });
  }
  const LoaderFixture fixture(options);
  const SavableDataLoaderState state = fixture.loader(0)->save_state_rank();
  CHECK_THROWS_WITH(order_pipeline({fixture.dataset()}, order(), state.config),
                    Catch::Contains("the stage " + stage) && Catch::Contains("--restore-key"));
  check_items(fixture.pipeline(), {.num_workers = 0},
              [&](const SavableDataLoaderState&) { return fixture.pipeline(); });
}
