// Which batch of the job a batch is, as the loader says it.

#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/loader/savable_data_loader.h"
#include "tests/energon/loader/job.h"

using energon::BatchPlace;
using energon::SavableDataLoader;
using energon::testing::in_memory;

namespace {

std::vector<BatchPlace> places(SavableDataLoader& loader, int batches) {
  std::vector<BatchPlace> places;
  while (static_cast<int>(places.size()) < batches) {
    if (loader.next()) {
      places.push_back(loader.last_place().value());
    }
  }
  return places;
}

const std::vector<BatchPlace> kTwoEpochs = {{0, 0, 0}, {1, 0, 0}, {0, 0, 1},
                                            {0, 1, 0}, {1, 1, 0}, {0, 1, 1}};

}  // namespace

TEST_CASE("the loader says which batch of the job it delivered, also where epochs do not end",
          "[loader]") {
  energon::TrainOptions options;
  options.virtual_epoch_length = 3;  // two of logical shard 0, one of logical shard 1
  const auto pipeline = in_memory({40}, options);
  for (const auto policy : {energon::EpochPolicy::kStrict, energon::EpochPolicy::kLoop}) {
    SavableDataLoader loader(pipeline,
                             {.worker_config = {.logical_shards = 2}, .epoch_policy = policy});
    CHECK_FALSE(loader.last_place());
    CHECK(places(loader, 6) == kTwoEpochs);
  }
}

TEST_CASE("the place of a batch goes on after a restore", "[loader]") {
  energon::TrainOptions options;
  options.virtual_epoch_length = 3;
  const auto pipeline = in_memory({40}, options);
  SavableDataLoader loader(pipeline, {.worker_config = {.logical_shards = 2}});
  places(loader, 4);
  const auto state = loader.save_state_rank();
  SavableDataLoader resumed(pipeline, {.worker_config = {.logical_shards = 2}});
  resumed.restore_state_rank(state);
  CHECK_FALSE(resumed.last_place());
  CHECK(places(resumed, 2) == std::vector<BatchPlace>{{1, 1, 0}, {0, 1, 1}});
}
