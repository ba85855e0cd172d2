// The tests of auxiliary data in Energon's test_crudedataset.py, with the same names and numbers:
// for sample i, the cooker fetches i + 100 of another dataset and, in the cases with a cache, i + 1
// of its own.

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallContext;
using energon::CookContext;
using energon::LoaderOptions;
using energon::Mapping;
using energon::PipelineFactory;
using energon::Sample;
using energon::SavableDataLoader;
using energon::TaskEncoder;
using energon::testing::check_resumes;
using energon::testing::keys;
using energon::testing::kTwoOf55;
using energon::testing::numbered_key;
using energon::testing::numbers;
using energon::testing::RecipeFolder;
using energon::testing::Stream;
using energon::testing::text_of;

namespace {

class Aux : public RecipeFolder {
 public:
  Aux() : RecipeFolder(kTwoOf55) {
    write("note.txt", "a file of the folder");
    recipe(
        "{path: ds1, aux: {other: ds2, files: filesystem://.}, "
        "subflavors: {crude_type: aux_random_access}}");
    std::filesystem::create_directory(file("cache"));
  }

  PipelineFactory train(TaskEncoder encoder) const {
    encoder.cache = {.parent_folder = file("cache"), .threads = 1};
    encoder.batch = energon::list_fields;
    return energon::train_dataset(
        file("m.yaml"), {},
        {.task_encoder = std::move(encoder), .batch_size = 2, .packing_buffer_size = 2});
  }
};

const LoaderOptions kTwoWorkers{.worker_config = {.num_workers = 2}, .checkpoint_every_batches = 1};

// Every sample is a pack.
TaskEncoder aux_packing_encoder(const energon::CookFunction& cook) {
  TaskEncoder encoder;
  encoder.cookers = {{.cook = cook, .has_subflavors = R"({"crude_type": "aux_random_access"})"}};
  encoder.select_samples_to_pack = [](std::span<const Sample> samples) {
    std::vector<std::vector<std::size_t>> packs;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      packs.push_back({i});
    }
    return packs;
  };
  encoder.pack_selected_samples = [](std::span<Sample> samples, CallContext& /*context*/) {
    return std::move(samples[0].fields);
  };
  return encoder;
}

std::int64_t number_of(const Sample& crude) { return numbers(crude).front(); }

Sample cook_aux(Sample crude, CookContext& context) {
  const auto other = context.aux("other", numbered_key(number_of(crude) + 100) + ".txt");
  crude.fields.emplace_back("other", other);
  return crude;
}

Sample cook_aux_and_next(Sample crude, CookContext& context) {
  const std::int64_t next = (number_of(crude) + 1) % 55;
  Sample cooked = cook_aux(std::move(crude), context);
  cooked.fields.emplace_back("next", context.lazy_primary(numbered_key(next) + ".txt"));
  return cooked;
}

void fetch(Sample& sample) {
  auto& next = sample.fields.back().second;
  next = std::get<energon::LazyBytes>(next.base()).get();
}

// The texts of 100 batches, then those of a loader restored at that point.
void check_texts(const PipelineFactory& make, bool with_next) {
  SavableDataLoader loader(make, kTwoWorkers);
  for (int i = 0; i < 100; ++i) {
    const Sample batch = loader.next().value();
    const auto of_batch = numbers(batch);
    REQUIRE(of_batch.size() == 2);
    std::vector<std::string> expected(3);
    for (const std::int64_t number : of_batch) {
      const std::string comma = expected[0].empty() ? "" : ",";
      expected[0] += comma + "a" + std::to_string(number);
      expected[1] += comma + "b" + std::to_string(number + 100);
      expected[2] += comma + "a" + std::to_string((number + 1) % 55);
    }
    CHECK(text_of(batch.at("txt")) == expected[0]);
    CHECK(text_of(batch.at("other")) == expected[1]);
    CHECK((!with_next || text_of(batch.at("next")) == expected[2]));
  }
  check_resumes(make, kTwoWorkers, {100}, 100);
}

Sample batch_201(const PipelineFactory& make) {
  SavableDataLoader loader(make, kTwoWorkers);
  for (int i = 0; i < 200; ++i) {
    loader.next();
  }
  return loader.next().value();
}

// Each as "dataset/shard index".
std::vector<std::string> sources_of(const Sample& batch) {
  std::vector<std::string> result;
  for (const auto& source : batch.sources) {
    const std::filesystem::path dataset(source.shard->dataset_path);
    result.push_back(dataset.filename() / source.shard->shard_name);
    result.back() += " " + std::to_string(source.index_in_shard);
  }
  return result;
}

}  // namespace

TEST_CASE("test_aux_random_access", "[recipes][crude][fork]") {
  const Aux aux;
  check_texts(aux.train(aux_packing_encoder(cook_aux)), false);
}

TEST_CASE("test_aux_random_access_with_cache", "[recipes][crude][fork]") {
  const Aux aux;
  TaskEncoder encoder = aux_packing_encoder(cook_aux_and_next);
  encoder.pack_selected_samples = [](std::span<Sample> samples, CallContext& /*context*/) {
    fetch(samples[0]);
    return std::move(samples[0].fields);
  };
  check_texts(aux.train(std::move(encoder)), true);
}

TEST_CASE("test_aux_random_access_with_cache_and_postencode", "[recipes][crude][fork]") {
  const Aux aux;
  TaskEncoder encoder = aux_packing_encoder(cook_aux_and_next);
  encoder.postencode_sample = [](Sample sample, CallContext& /*context*/) {
    fetch(sample);
    return sample;
  };
  const auto make = aux.train(std::move(encoder));
  check_texts(make, true);

  // The 201st batch. Its sources are those of cooking; Energon appends lazy files, too.
  const Sample batch = batch_201(make);
  CHECK(batch.keys == std::vector<std::string>{"000002", "000021"});
  CHECK(sources_of(batch) ==
        std::vector<std::string>{"ds1/parts/data-0.tar 2", "ds2/parts/data-0.tar 2",
                                 "ds1/parts/data-2.tar 1", "ds2/parts/data-2.tar 1"});

  // Without laziness, all six files that were read are listed, in order.
  const auto at_once = aux.train(aux_packing_encoder([](Sample crude, CookContext& context) {
    const std::int64_t next = (number_of(crude) + 1) % 55;
    Sample cooked = cook_aux(std::move(crude), context);
    cooked.fields.emplace_back("next", context.primary(numbered_key(next) + ".txt"));
    return cooked;
  }));
  CHECK(sources_of(batch_201(at_once)) ==
        std::vector<std::string>{"ds1/parts/data-0.tar 2", "ds2/parts/data-0.tar 2",
                                 "ds1/parts/data-0.tar 3", "ds1/parts/data-2.tar 1",
                                 "ds2/parts/data-2.tar 1", "ds1/parts/data-2.tar 2"});
}

TEST_CASE("test_aux_filesystem_reference", "[recipes][crude]") {
  const Aux aux;
  TaskEncoder encoder;
  encoder.cookers = {{.cook = [](Sample crude, CookContext& context) {
    crude.fields = {{"note", context.aux("files", "note.txt")}};
    return crude;
  }}};
  Stream stream(energon::train_dataset(aux.file("m.yaml"), {}, {.task_encoder = encoder}));
  CHECK(text_of(stream.next()->at("note")) == "a file of the folder");
}

TEST_CASE("test_nomds", "[recipes][crude][fork]") {
  // A single crude dataset, and a cooker for all samples.
  const Aux aux;
  TaskEncoder encoder;
  encoder.cookers = {{.cook = [](Sample crude, CookContext& /*context*/) {
    crude.fields = {{"text", "<" + text_of(crude.at("txt")) + ">"}};
    return crude;
  }}};
  SavableDataLoader loader(
      energon::train_dataset(aux.file("ds1"), {}, {.task_encoder = encoder, .batch_size = 2}),
      kTwoWorkers);
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    const Sample batch = loader.next().value();
    const auto of_batch = numbers(batch);
    CHECK(text_of(batch.at("text")) ==
          "<a" + std::to_string(of_batch[0]) + ">,<a" + std::to_string(of_batch[1]) + ">");
  }
}
