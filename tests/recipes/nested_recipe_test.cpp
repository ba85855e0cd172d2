// A whole recipe: two blends, a join, a JSONL file, cookers, packing and group batches, over three
// epochs, saved and restored at 50 random points.

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "io/prepare/prepare_join.h"
#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "tests/support/sanitizer.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallContext;
using energon::CookContext;
using energon::LoaderOptions;
using energon::Mapping;
using energon::PipelineFactory;
using energon::Sample;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::TaskEncoder;
using energon::testing::kFx55;
using energon::testing::kTens;
using energon::testing::labels;
using energon::testing::RecipeFolder;
using energon::testing::write_jsonl;

namespace {

class NestedRecipe : public RecipeFolder {
 public:
  NestedRecipe()
      : RecipeFolder({{.name = "a", .counts = kTens},
                      {.name = "b", .counts = kFx55, .first = 100},
                      {.name = "left", .counts = {40, 20}, .first = 200},
                      {.name = "right", .counts = {30}, .first = 210, .part = "cap"}}) {
    write_jsonl(*this, "lines.jsonl", 33, 300);
    write("inner.yaml", R"(
__class__: MetadatasetV2
splits:
  train:
    blend:
    - {weight: 3, path: b, subflavors: {kind: text}, subset: {range: [10%, 90%]}}
    - weight: 1
      join: [{path: left}, {path: right, nonmatch: skip}]
      joiner: {__class__: Pair}
      subflavors: {kind: pair}
)");
    write("outer.yaml", R"(
__class__: MetadatasetV2
splits:
  train:
    blend:
    - {weight: 2, path: a, subflavors: {kind: text}, shuffle_over_epochs_multiplier: 2}
    - {weight: 3, path: inner.yaml}
    - {weight: 1, path: lines.jsonl, subflavors: {kind: line}}
)");
    energon::prepare_metadataset(file("outer.yaml"));
  }

  PipelineFactory pipeline() const {
    TaskEncoder encoder;
    encoder.cookers = {{.cook = cook, .has_subflavors = R"({"kind": "pair"})"}, {.cook = cook}};
    encoder.preencode_sample = [](Sample sample, CallContext& context) {
      const auto length = static_cast<std::int64_t>(1 + context.rng()() % 40);
      sample.fields.emplace_back("length", length);
      return sample;
    };
    encoder.select_samples_to_pack = energon::pack_by_length(length_of, 64);
    encoder.postencode_sample = [](Sample sample, CallContext& context) {
      sample.fields.emplace_back("noise", static_cast<std::int64_t>(context.rng()()));
      return sample;
    };
    encoder.pack_selected_samples = [](std::span<Sample> samples, CallContext& context) {
      std::int64_t length = 0;
      for (const Sample& sample : samples) {
        length += length_of(sample);
      }
      Mapping fields = energon::list_fields(samples);
      fields.emplace_back("pack_length", length);
      fields.emplace_back("pack", context.call());
      return fields;
    };
    encoder.batch_group_criterion = [](const Sample& pack) {
      const bool is_full = std::get<std::int64_t>(pack.at("pack_length").base()) > 56;
      return energon::BatchGroup{.group = is_full ? "full" : "rest", .batch_size = is_full ? 3 : 2};
    };
    encoder.batch = energon::list_fields;
    encoder.encode_batch = [](Sample batch, CallContext& context) {
      batch.fields.emplace_back("batch_noise", static_cast<std::int64_t>(context.rng()()));
      return batch;
    };
    return energon::train_dataset(file("outer.yaml"), {},
                                  {.task_encoder = std::move(encoder),
                                   .batch_size = 2,
                                   .packing_buffer_size = 12,
                                   .shuffle_buffer_size = 25,
                                   .max_samples_per_sequence = 5,
                                   .virtual_epoch_length = 40});
  }

 private:
  static std::int64_t length_of(const Sample& sample) {
    return std::get<std::int64_t>(sample.at("length").base());
  }

  static Sample cook(Sample crude, CookContext& context) {
    Sample cooked;
    cooked.fields = {{"data", crude.fields.front().second},
                     {"parts", static_cast<std::int64_t>(crude.fields.size())},
                     {"augmented", static_cast<std::int64_t>(context.rng()())}};
    return cooked;
  }
};

}  // namespace

TEST_CASE("a nested recipe resumes at 50 random points of three epochs",
          "[recipes][nested][fork]") {
  const NestedRecipe recipe;
  const auto make = recipe.pipeline();
  const auto workers = GENERATE(0, 2, 3);
  const auto every = GENERATE(std::optional<std::int64_t>(), std::optional<std::int64_t>(7));
  const LoaderOptions options{.worker_config = {.num_workers = workers},
                              .checkpoint_every_batches = every};
  constexpr int kPoints = ENERGON_ADDRESS_SANITIZER ? 8 : 50;  // the sanitizer makes forks slow
  constexpr std::size_t kThreeEpochs = 3 * 41;                 // including the ends
  SavableDataLoader undisturbed(make, options);
  const auto reference = labels(undisturbed, kThreeEpochs);
  CHECK(std::count(reference.begin(), reference.end(), "end of epoch") == 3);

  std::mt19937 random(7 + static_cast<unsigned>(workers));
  std::vector<std::size_t> points;
  for (int i = 0; i < kPoints; ++i) {
    points.push_back(random() % kThreeEpochs);
  }
  std::sort(points.begin(), points.end());
  SavableDataLoader saved(make, options);
  std::size_t position = 0;
  for (const std::size_t point : points) {
    labels(saved, point - position);
    position = point;
    const SavableDataLoaderState state =
        energon::decode_loader_state(energon::encode_loader_state(saved.save_state_rank()));
    SavableDataLoader restored(make, options);
    restored.restore_state_rank(state);
    INFO("saved at " << point << ", " << workers << " workers");
    CHECK(labels(restored, kThreeEpochs - point) ==
          std::vector(reference.begin() + static_cast<std::ptrdiff_t>(point), reference.end()));
  }
}

TEST_CASE("every batch of a nested recipe is rebuilt from its key", "[recipes][nested][fork]") {
  const NestedRecipe recipe;
  const auto make = recipe.pipeline();
  SavableDataLoader loader(make, {.worker_config = {.num_workers = 2}});
  SavableDataLoader other(make, {.worker_config = {.num_workers = 2}});
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    const auto batch = loader.next();
    if (!batch) {
      continue;
    }
    const Sample rebuilt =
        other.restore_sample(energon::RestoreKey::from_text(batch->restore_key.text()));
    CHECK(digest(rebuilt) == digest(*batch));
    CHECK(rebuilt.keys == batch->keys);
    CHECK(rebuilt.restore_key == batch->restore_key);
  }
}
