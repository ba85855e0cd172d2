// States continue from their binary and their JSON form, with any pipeline.

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/state_forms.h"
#include "energon/loader/savable_data_loader.h"
#include "io/error.h"
#include "tests/energon/loader/every_stage.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/recipe/pipeline.h"

using energon::ErrorCode;
using energon::LoaderOptions;
using energon::PipelineFactory;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::testing::describe_next;
using energon::testing::error_of;
using energon::testing::MemoryLeaf;

namespace {

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % n); }
  std::int64_t one_of(const std::vector<std::int64_t>& values) {
    return values[static_cast<std::size_t>(below(std::ssize(values)))];
  }

 private:
  std::mt19937 random_;
};

PipelineFactory random_pipeline(Draw& draw) {
  energon::PipelineData data;
  for (std::int64_t leaf = 0; leaf < draw.one_of({1, 1, 2, 4}); ++leaf) {
    std::vector<std::int64_t> counts;
    for (std::int64_t i = 0; i < 1 + draw.below(5); ++i) {
      counts.push_back(1 + draw.below(40));
    }
    const auto dataset =
        std::make_shared<const MemoryLeaf>(std::string(1, static_cast<char>('a' + leaf)), counts);
    data.leaves.push_back({.dataset = dataset,
                           .length = dataset->sample_count(),
                           .weight = static_cast<double>(1 + draw.below(3)),
                           .repetitions = static_cast<double>(1 + draw.below(3))});
  }
  energon::TrainOptions options;
  options.repeat = draw.below(2) == 0;
  if (data.leaves.size() > 1) {
    data.mixing = options.repeat ? energon::Mixing::kWeighted : energon::Mixing::kEpochized;
  }
  options.batch_size = 1 + draw.below(4);
  options.shuffle_buffer_size = draw.one_of({0, 2, 7, 50});
  options.parallel_slices = 1 + draw.below(4);
  if (options.repeat && draw.below(3) == 0) {
    options.shuffle_over_epochs = {.mode = energon::ShuffleOverEpochs::Mode::kReplacement};
  } else {
    options.shuffle_over_epochs.epochs = 1 + draw.below(2);
  }
  return train_pipeline(std::move(data), std::move(options));
}

std::vector<std::string> go_on(const PipelineFactory& pipeline, const LoaderOptions& options,
                               const SavableDataLoaderState& state) {
  SavableDataLoader loader(pipeline, options);
  loader.restore_state_rank(state);
  return describe_next(loader, 30);
}

}  // namespace

TEST_CASE("states continue from both of their forms, in random pipelines", "[loader][state]") {
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    Draw draw(seed);
    const PipelineFactory pipeline = random_pipeline(draw);
    const LoaderOptions options{
        .worker_config = {.logical_shards = static_cast<int>(1 + draw.below(5))}};
    SavableDataLoader loader(pipeline, options);
    describe_next(loader, static_cast<std::size_t>(draw.one_of({0, 1, 3, 20, 200})));
    const SavableDataLoaderState state = loader.save_state_rank();
    const std::vector<std::string> expected = describe_next(loader, 30);

    const std::string file = encode_loader_state(state);
    REQUIRE(energon::decode_loader_state(file) == state);
    REQUIRE(go_on(pipeline, options, energon::decode_loader_state(file)) == expected);
    const auto json = loader_state_to_json(state);
    REQUIRE(go_on(pipeline, options, energon::loader_state_from_json(json)) == expected);

    // A loader that was restored can be saved again.
    SavableDataLoader later(pipeline, options);
    later.restore_state_rank(state);
    describe_next(later, 5);
    const SavableDataLoaderState again =
        energon::decode_loader_state(encode_loader_state(later.save_state_rank()));
    const std::vector<std::string> rest(expected.begin() + 5, expected.end());
    REQUIRE(rest == [&] {
      auto lines = go_on(pipeline, options, again);
      lines.resize(rest.size());
      return lines;
    }());
  }
}

TEST_CASE("a generator that would repeat too many draws is refused at once", "[loader][state]") {
  energon::TrainOptions options;
  options.shuffle_buffer_size = 20;
  const auto leaf = std::make_shared<const MemoryLeaf>("", std::vector<std::int64_t>{30, 25});
  const PipelineFactory pipeline = energon::train_pipeline(leaf, options);
  SavableDataLoader loader(pipeline);
  describe_next(loader, 3);
  SavableDataLoaderState state = loader.save_state_rank();
  energon::State& buffer = state.checkpoints[0].state->children[0];
  REQUIRE(buffer.type == "ShuffleBuffer");
  REQUIRE(buffer.fields[0].first == "rng");
  buffer.fields[0].second = std::string("1 18446744073709551615");
  CHECK_THAT(error_of(
                 [&] {
                   SavableDataLoader(pipeline).restore_state_rank(
                       energon::decode_loader_state(encode_loader_state(state)));
                 },
                 ErrorCode::kMismatch),
             Catch::Contains("ShuffleBuffer: generator state has 18446744073709551615 draws") &&
                 Catch::Contains("at most 1048576"));
}

TEST_CASE("logical shards that were not needed since a restore are saved unchanged",
          "[loader][state]") {
  const auto leaf =
      std::make_shared<const MemoryLeaf>("", std::vector<std::int64_t>{30, 25, 40, 60});
  int pipelines = 0;
  const PipelineFactory inner = energon::train_pipeline(leaf, {.batch_size = 2});
  const PipelineFactory pipeline = [&](const energon::PipelineContext& context) {
    ++pipelines;
    return inner(context);
  };
  const LoaderOptions options{.worker_config = {.logical_shards = 20}};
  SavableDataLoader loader(pipeline, options);
  describe_next(loader, 47);
  const SavableDataLoaderState state = loader.save_state_rank();
  const std::vector<std::string> expected = describe_next(loader, 100);
  SavableDataLoader resumed(pipeline, options);
  resumed.restore_state_rank(state);
  CHECK(resumed.save_state_rank() == state);
  pipelines = 0;
  std::vector<std::string> lines = describe_next(resumed, 3);
  CHECK(pipelines == 3);
  const SavableDataLoaderState later = resumed.save_state_rank();
  CHECK(later.checkpoints[0] == state.checkpoints[0]);
  CHECK(later.checkpoints[7].index == state.checkpoints[7].index + 1);
  SavableDataLoader last(pipeline, options);
  last.restore_state_rank(later);
  for (const std::string& line : describe_next(last, 97)) {
    lines.push_back(line);
  }
  CHECK(lines == expected);
}
