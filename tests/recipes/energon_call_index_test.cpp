// The tests of batch and sample indices in Energon's test_dataset.py, by name. In Energon, an index
// counts over all workers of a rank: index = call * workers + worker. Here, a function knows its
// call. Energon uses Python's random numbers; ours are derived from the restore key.

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallContext;
using energon::LoaderOptions;
using energon::PipelineFactory;
using energon::Sample;
using energon::SavableDataLoader;
using energon::TaskEncoder;
using energon::WorkerConfig;
using energon::testing::check_resumes;
using energon::testing::kCaptions;
using energon::testing::RecipeFolder;

namespace {

Sample with_call(Sample sample, CallContext& context) {
  sample.fields = {{"call", context.call()},
                   {"random", static_cast<std::int64_t>(context.rng()() % 1001)}};
  return sample;
}

TaskEncoder encoder_of(energon::SampleStage encode_sample) {
  TaskEncoder encoder;
  encoder.encode_sample = std::move(encode_sample);
  encoder.batch = energon::list_fields;
  encoder.encode_batch = [](Sample batch, CallContext& context) {
    batch.fields.emplace_back("batch", context.call());
    return batch;
  };
  return encoder;
}

std::int64_t integer(const energon::Value& value) { return std::get<std::int64_t>(value.base()); }

// Indices of the rank's batch `number`, where each call of encode_sample makes `outputs` samples.
void check_calls(const Sample& batch, std::int64_t number, const WorkerConfig& config,
                 std::int64_t batch_size, std::int64_t outputs) {
  const std::int64_t workers = std::max(config.num_workers, 1);
  const std::int64_t of_worker = number / workers;
  CHECK(integer(batch.at("batch")) == of_worker);
  const auto& calls = std::get<energon::List>(batch.at("call").base());
  REQUIRE(calls.size() == static_cast<std::size_t>(batch_size));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CHECK(integer(calls[i]) == (static_cast<std::int64_t>(i) + of_worker * batch_size) / outputs);
  }
}

void check_indices(const PipelineFactory& make, std::int64_t batch_size, std::int64_t outputs) {
  const std::vector<WorkerConfig> layouts = {
      {}, {.world_size = 2, .num_workers = 2}, {.rank = 1, .world_size = 2, .num_workers = 2}};
  for (const WorkerConfig& config : layouts) {
    const LoaderOptions options{.worker_config = config};
    SavableDataLoader loader(make, options);
    for (std::int64_t i = 0; i < 20; ++i) {
      const Sample batch = loader.next().value();
      check_calls(batch, i, config, batch_size, outputs);
      const Sample rebuilt = loader.restore_sample(batch.restore_key);
      CHECK(digest(rebuilt) == digest(batch));
      CHECK(rebuilt.keys == batch.keys);
    }
    SavableDataLoader restored(make, options);
    restored.restore_state_rank(loader.save_state_rank());
    for (std::int64_t i = 20; i < 40; ++i) {
      const Sample batch = restored.next().value();
      check_calls(batch, i, config, batch_size, outputs);
      CHECK(digest(batch) == digest(loader.next().value()));
    }
  }
}

}  // namespace

TEST_CASE("test_current_batch_index", "[recipes][dataset][fork]") {
  const RecipeFolder captions(kCaptions);
  check_indices(energon::train_dataset(captions.file("ds"), {},
                                       {.task_encoder = encoder_of(with_call),
                                        .batch_size = 2,
                                        .shuffle_buffer_size = 20,
                                        .max_samples_per_sequence = 10}),
                2, 1);
}

TEST_CASE("test_current_batch_index_generator", "[recipes][dataset][fork]") {
  // Two outputs per sample, the second with numbers from 1000; batches of three split the pairs.
  const RecipeFolder captions(kCaptions);
  const energon::FlatMapFunction twice = [](Sample sample, CallContext& context) {
    return [sample = std::move(sample), &context,
            output = std::int64_t{0}]() mutable -> std::optional<Sample> {
      if (output == 2) {
        return std::nullopt;
      }
      Sample made = with_call(sample, context);
      made.fields.back().second = integer(made.at("random")) + 1000 * output++;
      return made;
    };
  };
  const auto make = energon::train_dataset(captions.file("ds"), {},
                                           {.task_encoder = encoder_of(twice),
                                            .batch_size = 3,
                                            .shuffle_buffer_size = 20,
                                            .max_samples_per_sequence = 10});
  check_indices(make, 3, 2);
  check_resumes(make, {.worker_config = {.world_size = 2, .num_workers = 2}}, {20, 21}, 20);
}
