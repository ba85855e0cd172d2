// The place of each batch in the job, as reported by the loader.

#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/rescale.h"
#include "energon/loader/basic_data_loader.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/sample/sample.h"
#include "tests/energon/loader/job.h"

using energon::BatchPlace;
using energon::CallContext;
using energon::Sample;
using energon::SavableDataLoader;
using energon::WorkerConfig;
using energon::testing::in_memory;
using Numbers = std::vector<std::int64_t>;

namespace {

template <class Loader>
std::vector<BatchPlace> places(Loader& loader, int batches) {
  std::vector<BatchPlace> places;
  while (static_cast<int>(places.size()) < batches) {
    if (const auto batch = loader.next()) {
      places.push_back(batch->place.value());
    }
  }
  return places;
}

energon::TrainOptions virtual_epochs() {
  energon::TrainOptions options;
  options.virtual_epoch_length = 3;  // with two logical shards, two of 0 and one of 1
  return options;
}

const std::vector<BatchPlace> kTwoEpochs = {{0, 0, 0}, {1, 0, 0}, {0, 0, 1},
                                            {0, 1, 0}, {1, 1, 0}, {0, 1, 1}};

// The micro batches of the loaders, polled in turn.
Numbers micro_batches(std::vector<SavableDataLoader*> ranks, int steps, int logical_shards) {
  Numbers numbers;
  for (int step = 0; step < steps; ++step) {
    for (SavableDataLoader* const rank : ranks) {
      numbers.push_back(rank->next()->place->micro_batch(logical_shards));
    }
  }
  return numbers;
}

}  // namespace

TEST_CASE("a batch has its place in the job, also in endless epochs", "[loader]") {
  const auto pipeline = in_memory({40}, virtual_epochs());
  const WorkerConfig config = {.logical_shards = 2};
  for (const auto policy : {energon::EpochPolicy::kStrict, energon::EpochPolicy::kLoop}) {
    CAPTURE(policy);
    SavableDataLoader loader(pipeline, {.worker_config = config, .epoch_policy = policy});
    CHECK(places(loader, 6) == kTwoEpochs);
  }
  auto iteration = energon::BasicDataLoader(pipeline, {.worker_config = config}).iterate();
  CHECK(places(iteration, 6) == kTwoEpochs);
}

TEST_CASE("a batch of a worker has its place", "[loader][fork]") {
  SavableDataLoader loader(in_memory({40}, virtual_epochs()),
                           {.worker_config = {.num_workers = 2, .logical_shards = 2}});
  CHECK(places(loader, 6) == kTwoEpochs);
}

TEST_CASE("places continue after a restore", "[loader]") {
  const auto pipeline = in_memory({40}, virtual_epochs());
  SavableDataLoader loader(pipeline, {.worker_config = {.logical_shards = 2}});
  places(loader, 4);
  const auto state = loader.save_state_rank();
  SavableDataLoader resumed(pipeline, {.worker_config = {.logical_shards = 2}});
  resumed.restore_state_rank(state);
  CHECK(places(resumed, 2) == std::vector<BatchPlace>{{1, 1, 0}, {0, 1, 1}});
}

TEST_CASE("micro batch numbers continue after a rescale", "[loader]") {
  const auto pipeline = in_memory({40}, {});
  const auto on = [](int rank, int ranks) {
    return energon::LoaderOptions{
        .worker_config = {.rank = rank, .world_size = ranks, .logical_shards = 6}};
  };
  SavableDataLoader first(pipeline, on(0, 2));
  SavableDataLoader second(pipeline, on(1, 2));
  CHECK(micro_batches({&first, &second}, 4, 6) == Numbers{0, 1, 2, 3, 4, 5, 6, 7});
  const auto job =
      energon::rescale(energon::merge_states({first.save_state_rank(), second.save_state_rank()}),
                       {.world_size = 1, .num_workers = 0});
  SavableDataLoader alone(pipeline, on(0, 1));
  alone.restore_state_rank(energon::state_of_rank(job, 0));
  CHECK(micro_batches({&alone}, 5, 6) == Numbers{8, 9, 10, 11, 12});
}

TEST_CASE("a pipeline does not see the place, and a place that it sets is dropped", "[loader]") {
  bool is_seen = false;
  energon::TrainOptions options = virtual_epochs();
  options.task_encoder.encode_sample = energon::MapFunction([&](Sample sample, CallContext&) {
    is_seen = is_seen || sample.place.has_value();
    return sample;
  });
  options.task_encoder.encode_batch = energon::MapFunction([&](Sample batch, CallContext&) {
    is_seen = is_seen || batch.place.has_value();
    batch.place = BatchPlace{7, 7, 7};
    return batch;
  });
  options.batch_size = 1;
  SavableDataLoader loader(in_memory({40}, options), {.worker_config = {.logical_shards = 2}});
  CHECK(places(loader, 6) == kTwoEpochs);
  CHECK_FALSE(is_seen);
  const auto batch = loader.next() ? loader.next() : loader.next();
  CHECK_FALSE(loader.restore_sample(batch->restore_key).place);
}
