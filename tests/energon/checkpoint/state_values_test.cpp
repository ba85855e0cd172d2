// States as values: merging states of ranks (CER-15); a state passed to a loader stays unchanged
//

#include <string>
#include <tuple>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/rescale.h"
#include "energon/loader/savable_data_loader.h"
#include "io/error.h"
#include "tests/energon/checkpoint/keys.h"
#include "tests/energon/loader/job.h"
#include "tests/energon/loader/loader_fixture.h"

namespace {

using energon::Error;
using energon::PipelineFactory;
using energon::SavableJobState;
using energon::TrainOptions;
using energon::testing::in_memory;
using energon::testing::Job;
using energon::testing::Keys;
using energon::testing::one_epoch;
using energon::testing::take;

TEST_CASE("CER-15 the ranks of a job may be in any order, but all must be there once, at one step",
          "[rescale][cer]") {
  const PipelineFactory pipeline = in_memory({100}, one_epoch());
  Job job(pipeline, {.world_size = 3, .logical_shards = 6});
  job.steps(2);
  const SavableJobState state = job.save();
  job.steps(1);
  const SavableJobState later = job.save();
  const auto& [a, b, c] = std::tie(state.ranks[0], state.ranks[1], state.ranks[2]);
  CHECK(energon::merge_states({c, a, b}) == state);
  CHECK_THROWS_WITH(energon::merge_states({a, c}), Catch::Contains("missing: 1"));
  CHECK_THROWS_WITH(energon::merge_states({a, b, b, c}), Catch::Contains("rank 1 occurs 2 times"));
  CHECK_THROWS_WITH(energon::merge_states({a, b, later.ranks[2]}),
                    Catch::Contains("different steps of epoch 0: 2 at ranks 0, 1, 3 at ranks 2"));
  CHECK_THROWS_AS(energon::merge_states({}), Error);
}

TEST_CASE("X-06 rescale and restore do not change their argument", "[rescale][cross]") {
  TrainOptions options;
  options.batch_size = 2;
  const PipelineFactory pipeline = in_memory({60}, options);
  Job job(pipeline, {.world_size = 2, .logical_shards = 4});
  job.steps(5);
  const SavableJobState state = job.save();
  const std::string bytes = energon::encode_job_state(state);
  Keys expected;
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    Job other(pipeline, {.world_size = 4, .logical_shards = 4});
    other.restore(rescale(state, {.world_size = 4}));
    const Keys keys = other.steps(7);
    expected = i == 0 ? keys : expected;
    CHECK(keys == expected);
    CHECK(energon::encode_job_state(state) == bytes);
  }
}

TEST_CASE("X-06 changing a state after a load or save affects no loader",
          "[rescale][cross][fork]") {
  TrainOptions options;
  options.batch_size = 2;
  options.shuffle_buffer_size = 5;
  const PipelineFactory pipeline = in_memory({60}, options);
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const energon::LoaderOptions settings{
        .worker_config = {.num_workers = workers, .logical_shards = 4},
        .checkpoint_every_batches = 1};
    energon::SavableDataLoader first(pipeline, settings);
    take(first, 9);
    energon::SavableDataLoaderState state = first.save_state_rank();
    const energon::SavableDataLoaderState kept = state;
    const auto ruin = [](energon::SavableDataLoaderState& ruined) {
      for (auto& stream : ruined.checkpoints) {
        stream.state.reset();
        stream.index = stream.offset = stream.epoch = 77;
        stream.turn = {};
      }
      ruined.checkpoints.pop_back();
      ruined.config = energon::Config("another");
      ruined.epoch = ruined.batch_index = 99;
    };
    energon::SavableDataLoader second(pipeline, settings);
    energon::SavableDataLoader third(pipeline, settings);
    second.restore_state_rank(state);
    third.restore_state_rank(state);  // the same object, twice
    ruin(state);                      // before either starts
    const auto expected = take(first, 12);
    CHECK(take(second, 12) == expected);
    CHECK(third.save_state_rank() == kept);
    CHECK(take(third, 12) == expected);
    energon::SavableDataLoaderState saved = second.save_state_rank();
    const energon::SavableDataLoaderState as_saved = saved;
    ruin(saved);
    CHECK(second.save_state_rank() == as_saved);
    CHECK(take(second, 5) == take(third, 5));
  }
}

}  // namespace
