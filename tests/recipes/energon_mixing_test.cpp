// The tests of mixed batches in Energon's test_dataset.py, by name and numbers: batches of ten of
// two datasets, two to eight.

#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/sample/buffer_allocator.h"
#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/batching/batch_functions.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallContext;
using energon::LeafBatch;
using energon::List;
using energon::Mapping;
using energon::Sample;
using energon::TaskEncoder;
using energon::Tensor;
using energon::testing::kCaptions;
using energon::testing::RecipeFolder;
using energon::testing::Stream;

namespace {

constexpr int kBatches = 1000;

// An image of fixed size from each sample; batches know their leaf.
TaskEncoder mixing_encoder(energon::MixFunction mix) {
  TaskEncoder encoder;
  encoder.encode_sample = [](Sample sample, CallContext& context) {
    sample.fields = {
        {"image", energon::new_tensor(energon::DType::kUInt8, {3, 4, 4}, context.memory()).tensor}};
    return sample;
  };
  const auto of_source = [](std::int64_t source) {
    return [source](std::span<Sample> samples, CallContext& context) {
      Mapping fields = energon::generic_batch(samples, context);
      fields.emplace_back("source", List(samples.size(), source));
      return fields;
    };
  };
  encoder.batch = energon::mix_batch(
      {.leaf_functions = {{0, of_source(0)}, {1, of_source(1)}}, .mix = std::move(mix)});
  return encoder;
}

Stream mixed(const RecipeFolder& captions, energon::MixFunction mix) {
  return Stream(energon::train_dataset(
      captions.recipe("{blend: [{path: ds, weight: 2}, {path: ds, weight: 8}]}"), {},
      {.task_encoder = mixing_encoder(std::move(mix)), .batch_size = 10}));
}

void count_sources(const Mapping& fields, std::map<std::int64_t, int>& counts) {
  const auto source = std::find_if(fields.begin(), fields.end(),
                                   [](const auto& field) { return field.first == "source"; });
  for (const energon::Value& number : std::get<List>(source->second.base())) {
    ++counts[std::get<std::int64_t>(number.base())];
  }
}

void check_shares(std::map<std::int64_t, int>& counts) {
  CHECK(counts.size() == 2);
  CHECK((counts[0] >= 1500 && counts[0] <= 2500));
  CHECK((counts[1] >= 7500 && counts[1] <= 8500));
  CHECK(counts[0] + counts[1] == 10 * kBatches);
}

}  // namespace

TEST_CASE("test_mixing_homogeneous", "[recipes][dataset]") {
  const RecipeFolder captions(kCaptions);
  Stream stream = mixed(captions, energon::concat_batches);
  std::map<std::int64_t, int> counts;
  for (const Sample& batch : stream.take(kBatches)) {
    CAPTURE(batch.keys.strings());
    CHECK(std::get<Tensor>(batch.at("image").base()).shape ==
          std::vector<std::int64_t>{10, 3, 4, 4});
    count_sources(batch.fields, counts);
  }
  check_shares(counts);
}

TEST_CASE("test_mixing_heterogeneous", "[recipes][dataset]") {
  // The batches of the leaves stay separate; they could have different fields.
  const RecipeFolder captions(kCaptions);
  Stream stream = mixed(captions, [](std::span<LeafBatch> batches, CallContext& /*context*/) {
    Mapping fields;
    for (LeafBatch& batch : batches) {
      fields.emplace_back("leaf " + std::to_string(batch.leaf), std::move(batch.fields));
    }
    return fields;
  });
  std::map<std::int64_t, int> counts;
  for (const Sample& batch : stream.take(kBatches)) {
    CAPTURE(batch.keys.strings());
    CHECK(batch.keys.size() == 10);
    std::int64_t images = 0;
    for (const auto& [name, leaf] : batch.fields) {
      CAPTURE(name);
      const auto& fields = std::get<Mapping>(leaf.base());
      const auto& shape = std::get<Tensor>(fields.at(0).second.base()).shape;
      CHECK(shape == std::vector<std::int64_t>{shape.at(0), 3, 4, 4});
      images += shape[0];
      count_sources(fields, counts);
    }
    CHECK(images == 10);
  }
  check_shares(counts);
}

TEST_CASE("test_weight_aug", "[recipes][dataset]") {
  // An encoder that wraps another.
  const RecipeFolder captions(kCaptions);
  TaskEncoder inner;
  inner.encode_sample = [](Sample sample, CallContext& /*context*/) {
    sample.fields.emplace_back("encoded", std::int64_t{1});
    return sample;
  };
  TaskEncoder outer = inner;
  outer.encode_sample = [encode = std::get<energon::MapFunction>(inner.encode_sample)](
                            Sample sample, CallContext& context) {
    Sample encoded = encode(std::move(sample), context);
    encoded.fields.emplace_back("weight", 0.8);
    return encoded;
  };
  outer.batch = energon::list_fields;
  Stream stream(energon::val_dataset(captions.file("ds"), {.split = "train"},
                                     {.task_encoder = outer, .batch_size = 10}));
  const auto batches = stream.take();
  REQUIRE(batches.size() == 5);
  for (const Sample& batch : batches) {
    CAPTURE(batch.keys.strings());
    const auto& weights = std::get<List>(batch.at("weight").base());
    REQUIRE(weights.size() == 10);
    for (const energon::Value& weight : weights) {
      CHECK(std::get<double>(weight.base()) == 0.8);
    }
  }
}
