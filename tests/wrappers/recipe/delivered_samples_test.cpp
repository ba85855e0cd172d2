// When a job of two ranks delivered a sample, compared with what its loaders returned.

#include "wrappers/recipe/delivered_samples.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/checkpoint/job_state.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/read/find_sample.h"
#include "io/error.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/recipe/order_pipeline.h"

using energon::Config;
using energon::Delivery;
using energon::KeyedSample;
using energon::PipelineData;
using energon::PipelineFactory;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::testing::kTens;
using energon::testing::TempDir;

namespace {

constexpr int kRanks = 2;
constexpr std::int64_t kSteps = 12;

// rank, step, position, key, restore key
using Line = std::tuple<int, std::int64_t, std::int64_t, std::string, std::string>;

// Both ranks of a job, over more than a pass over its data, and their output.
class TwoRanks {
 public:
  TwoRanks() {
    write_numbered_shards(folder_, kTens);
    data_ = energon::open_data(folder_.path());
    energon::TrainOptions job = options();
    job.task_encoder.encode_sample =
        energon::MapFunction([](energon::Sample sample, energon::CallContext&) { return sample; });
    const PipelineFactory pipeline = energon::train_pipeline(data_, job);
    for (int rank = 0; rank < kRanks; ++rank) {
      SavableDataLoader loader(pipeline, {.worker_config = {.rank = rank, .world_size = kRanks}});
      for (std::int64_t step = 0; step < kSteps; ++step) {
        const auto batch = loader.next();
        for (std::size_t i = 0; i < batch->keys.size(); ++i) {
          log_.emplace_back(rank, step, static_cast<std::int64_t>(i), batch->keys[i],
                            batch->restore_key.text());
        }
      }
      states_.push_back(loader.save_state_rank());
    }
  }

  static energon::TrainOptions options() {
    return {.batch_size = 3, .shuffle_buffer_size = 5, .parallel_slices = 2};
  }
  energon::PipelineOfConfig order() const {
    return [this](const Config& config) { return order_pipeline(data_, options(), config); };
  }

  std::vector<Line> lines_with(const std::vector<std::string>& keys) const {
    std::vector<Line> lines;
    for (const Line& line : log_) {
      if (std::find(keys.begin(), keys.end(), std::get<3>(line)) != keys.end()) {
        lines.push_back(line);
      }
    }
    return lines;
  }

  std::vector<KeyedSample> samples(const std::vector<std::string>& keys) const {
    std::vector<energon::FoundSample> found;
    for (const std::string& key : keys) {
      found.push_back(energon::find_sample(folder_.path(), key));
    }
    return locate_samples(found, data_);
  }

  const std::vector<Line>& log() const { return log_; }
  const std::vector<SavableDataLoaderState>& states() const { return states_; }
  const PipelineData& data() const { return data_; }

 private:
  TempDir folder_;
  PipelineData data_;
  std::vector<Line> log_;
  std::vector<SavableDataLoaderState> states_;
};

}  // namespace

TEST_CASE("the deliveries of samples equal those in the log of the job", "[wrappers][delivered]") {
  const TwoRanks job;
  const std::vector<std::string> keys = {"000003", "000017", "000044"};
  std::vector<Line> found;
  for (const Delivery& delivery : find_deliveries(job.states(), {job.order()}, job.samples(keys))) {
    found.emplace_back(delivery.rank, delivery.step, delivery.position, delivery.key,
                       delivery.restore_key.text());
  }
  CHECK(found.size() > keys.size());
  CHECK(found == job.lines_with(keys));

  int items = 0;
  CHECK_THROWS_WITH(find_deliveries(job.states(), {job.order()}, job.samples(keys),
                                    [&] {
                                      if (++items == 5) {
                                        throw energon::Error(energon::ErrorCode::kCancelled,
                                                             "enough");
                                      }
                                    }),
                    "enough");
}

TEST_CASE("the keys of a step equal those in the log of the job", "[wrappers][delivered]") {
  const TwoRanks job;
  const auto steps = keys_of_step(job.states(), {job.order()}, job.data(), 7);
  REQUIRE(steps.size() == kRanks);
  std::vector<Line> found;
  for (const energon::DeliveredStep& step : steps) {
    for (std::size_t i = 0; i < step.keys.size(); ++i) {
      found.emplace_back(step.rank, 7, static_cast<std::int64_t>(i), step.keys[i],
                         step.restore_key.text());
    }
  }
  std::vector<Line> expected;
  for (const Line& line : job.log()) {
    if (std::get<1>(line) == 7) {
      expected.push_back(line);
    }
  }
  CHECK(found == expected);
}

TEST_CASE("a step after the end of the data is refused", "[wrappers][delivered]") {
  const TempDir folder;
  write_numbered_shards(folder, {1});  // for rank 0
  const PipelineData data = energon::open_data(folder.path());
  const energon::ValOptions options = {.batch_size = 1};
  SavableDataLoader loader(energon::val_pipeline(data, options),
                           {.worker_config = {.rank = 1, .world_size = 2}});
  const std::vector states = {loader.save_state_rank()};
  CHECK_THROWS_WITH(keys_of_step(states, {[&](const Config& config) {
                                   return order_pipeline(data, options, config);
                                 }},
                                 data, 2),
                    "rank 1 has no step 2: its data ends at 0");
}

TEST_CASE("found samples are located in each leaf that has their shard", "[wrappers][delivered]") {
  const TempDir folder;
  write_prepared(folder, {.name = "one", .counts = {2, 3}});
  write_prepared(folder, {.name = "two", .counts = {2, 3}});
  const std::string path = folder.write("m.yaml",
                                        "__module__: megatron.energon\n"
                                        "__class__: MetadatasetV2\n"
                                        "splits:\n  train:\n    blend:\n    - {path: one}\n"
                                        "    - {path: two}\n    - {path: ./one}\n");
  const PipelineData data = energon::open_data(path);
  const auto found = energon::find_samples(folder.file("one"), "000003");
  const auto located = locate_samples(found, data);
  REQUIRE(located.size() == 2);
  CHECK(located[0].key == "000003");
  CHECK(located[0].reference == energon::SampleRef{.index = 3, .leaf = 0});
  CHECK(located[1].reference == energon::SampleRef{.index = 3, .leaf = 2});
}
