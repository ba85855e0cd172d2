// Energon's test_dataset_det.py as black-box tests, by name and numbers: 55 text samples in shards
// of 2, 2, 3, 4, 10, 10, 10, 10 and 4.

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallContext;
using energon::LoaderOptions;
using energon::PipelineFactory;
using energon::Sample;
using energon::TaskEncoder;
using energon::TrainOptions;
using energon::WorkerConfig;
using energon::testing::check_resumes;
using energon::testing::counts;
using energon::testing::keys;
using energon::testing::Keys;
using energon::testing::kFx55;
using energon::testing::labels;
using energon::testing::numbered_key;
using energon::testing::RecipeFolder;
using energon::testing::Stream;
using energon::testing::take_all;

namespace {

class Fx55 : public RecipeFolder {
 public:
  Fx55() : RecipeFolder({{.name = "ds", .counts = kFx55}}) {}

  PipelineFactory train(TrainOptions options = {}) const {
    return energon::train_dataset(file("ds"), {}, std::move(options));
  }
};

Keys key_range(int begin, int end) {
  Keys result;
  for (int i = begin; i < end; ++i) {
    result.push_back(numbered_key(i));
  }
  return result;
}

// An augmentation that depends only on CallContext::rng().
Sample augment(Sample sample, CallContext& context) {
  sample.fields.emplace_back("noise", static_cast<std::int64_t>(context.rng()()));
  return sample;
}

// Samples of each global batch, sorted: the samples of all ranks in one step.
std::vector<Keys> global_batches(const PipelineFactory& make, int world_size, int num_workers,
                                 int micro_batches_per_step, std::size_t steps) {
  std::vector<std::unique_ptr<energon::SavableDataLoader>> loaders;
  for (int rank = 0; rank < world_size; ++rank) {
    loaders.push_back(std::make_unique<energon::SavableDataLoader>(
        make,
        LoaderOptions{.worker_config = {
                          .rank = rank, .world_size = world_size, .num_workers = num_workers}}));
  }
  std::vector<Keys> result;
  for (std::size_t step = 0; step < steps; ++step) {
    Keys batch;
    for (const auto& loader : loaders) {
      for (int i = 0; i < micro_batches_per_step; ++i) {
        const auto micro_batch = loader->next();
        REQUIRE(micro_batch);
        batch.insert(batch.end(), micro_batch->keys.begin(), micro_batch->keys.end());
      }
    }
    std::sort(batch.begin(), batch.end());
    result.push_back(std::move(batch));
  }
  return result;
}

}  // namespace

TEST_CASE("test_split_parts", "[recipes][det]") {
  const Fx55 fx;
  fx.write("ds/.nv-meta/other.yaml",
           "split_parts:\n  train:\n  - parts/data-4.tar\n  - parts/data-0.tar\n"
           "  - parts/data-2.tar\nexclude: []\n");
  fx.write("m.yaml",
           "__class__: MetadatasetV2\nsplits:\n  train:\n    path: ds\n"
           "    split_config: other.yaml\n");
  Keys expected = key_range(11, 21);
  for (const Keys& more : {key_range(0, 2), key_range(4, 7)}) {
    expected.insert(expected.end(), more.begin(), more.end());
  }
  Stream stream(energon::val_dataset(fx.file("m.yaml"), {.split = "train"}));
  CHECK(keys(stream.take()) == expected);
}

TEST_CASE("test_text_dataset", "[recipes][det]") {
  const Fx55 fx;
  Stream stream(energon::val_dataset(fx.file("ds"), {.split = "train"}));
  CHECK(stream.dataset().size() == 55);
  for (int pass = 0; pass < 3; ++pass) {
    CAPTURE(pass);
    CHECK(keys(stream.take()) == key_range(0, 55));
    stream.dataset().next_epoch();
  }
}

TEST_CASE("test_epoch", "[recipes][det]") {
  const Fx55 fx;
  Keys seen = keys(take_all(fx.train({.shuffle_buffer_size = 42, .repeat = false}), 1, 5));
  std::sort(seen.begin(), seen.end());
  CHECK(seen == key_range(0, 55));
}

TEST_CASE("test_determinism", "[recipes][det]") {
  const Fx55 fx;
  const auto make = fx.train({.shuffle_buffer_size = 42, .max_samples_per_sequence = 2});
  const auto order = [&make](const WorkerConfig& config, std::size_t count) {
    return keys(Stream(make, config).take(count));
  };
  const Keys first = order({}, 55 * 20);
  CHECK(first == order({}, 55 * 20));
  CHECK(Keys(first.begin(), first.begin() + 55) != Keys(first.begin() + 55, first.begin() + 110));
  CHECK(first != order({.seed_offset = 43}, 55 * 20));
  CHECK(first != order({.num_workers = 2}, 55 * 20));
  for (const auto& [key, count] : counts(first)) {
    INFO(key);
    CHECK((count >= 17 && count <= 22));
  }
  for (const auto& [key, count] : counts(order({}, 55 * 100))) {
    INFO(key);
    CHECK((count >= 90 && count <= 110));
  }
}

TEST_CASE("test_determinism_taskencoder", "[recipes][det]") {
  const Fx55 fx;
  const TrainOptions options{.task_encoder = {.encode_sample = augment}, .batch_size = 7};
  const auto noise = [&](std::int64_t seed_offset) {
    std::vector<std::string> result;
    Stream stream(fx.train(options), {.seed_offset = seed_offset});
    for (const Sample& batch : stream.take(30)) {
      result.push_back(fmt::format("{:016x}", digest(batch)));
    }
    return result;
  };
  const auto expected = noise(0);
  std::srand(7);  // global generators have no effect
  CHECK(noise(0) == expected);
  CHECK(noise(1) != expected);
  CHECK(std::set<std::string>(expected.begin(), expected.end()).size() == 30);
}

TEST_CASE("test_determinism_taskencoder_save_restore", "[recipes][det][fork]") {
  const Fx55 fx;
  for (const int workers : {0, 2}) {
    check_resumes(fx.train({.task_encoder = {.encode_sample = augment},
                            .batch_size = 3,
                            .shuffle_buffer_size = 10}),
                  {.worker_config = {.num_workers = workers}}, {0, 1, 7, 20, 41}, 25);
  }
}

TEST_CASE("test_restore_state", "[recipes][det]") {
  const Fx55 fx;
  check_resumes(
      fx.train({.batch_size = 2, .shuffle_buffer_size = 42, .max_samples_per_sequence = 2}), {},
      {0, 3, 27, 28, 60}, 60);
}

TEST_CASE("test_restore_state_dist", "[recipes][det][fork]") {
  // Three ranks: their states are gathered in one place and distributed again.
  const Fx55 fx;
  const auto make =
      fx.train({.batch_size = 2, .shuffle_buffer_size = 42, .max_samples_per_sequence = 2});
  const auto ranks = [&make] {
    std::vector<std::unique_ptr<energon::SavableDataLoader>> loaders;
    for (int rank = 0; rank < 3; ++rank) {
      loaders.push_back(std::make_unique<energon::SavableDataLoader>(
          make, LoaderOptions{.worker_config = {.rank = rank, .world_size = 3, .num_workers = 2}}));
    }
    return loaders;
  };
  for (const std::size_t taken : {0, 1, 20}) {
    CAPTURE(taken);
    std::vector<std::string> gathered;
    std::vector<std::vector<std::string>> expected;
    for (const auto& loader : ranks()) {
      labels(*loader, taken);
      gathered.push_back(encode_loader_state(loader->save_state_rank()));
      expected.push_back(labels(*loader, 40));
    }
    const auto restored = ranks();
    for (std::size_t rank = 0; rank < 3; ++rank) {
      CAPTURE(rank);
      restored[rank]->restore_state_rank(energon::decode_loader_state(gathered[rank]));
      CHECK(labels(*restored[rank], 40) == expected[rank]);
    }
  }
}

TEST_CASE("test_restore_state_workers", "[recipes][det][fork]") {
  const Fx55 fx;
  for (const std::optional<std::int64_t> every : {std::optional<std::int64_t>(), {{1}}, {{5}}}) {
    check_resumes(
        fx.train({.batch_size = 2, .shuffle_buffer_size = 42, .max_samples_per_sequence = 2}),
        {.worker_config = {.num_workers = 2}, .checkpoint_every_batches = every}, {18, 127}, 100);
  }
}

TEST_CASE("test_invariance_global_samples", "[recipes][det][fork]") {
  const Fx55 fx;
  const auto make = [&fx](std::int64_t batch_size) {
    return fx.train({.batch_size = batch_size, .shuffle_buffer_size = 42});
  };
  // A step is eight samples: one micro batch of 2 from each of the four logical shards.
  const auto expected = global_batches(make(2), 1, 4, 4, 40);
  CHECK(global_batches(make(2), 2, 2, 2, 40) == expected);
  CHECK(global_batches(make(2), 4, 1, 1, 40) == expected);
  // With half the micro batch, a step uses each worker twice.
  const auto halved = global_batches(make(1), 2, 2, 4, 40);
  CHECK(halved == expected);
}
