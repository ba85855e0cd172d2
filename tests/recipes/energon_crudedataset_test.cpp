// Energon's test_crudedataset.py as black-box tests: cookers, auxiliary data, packing, sources.

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallContext;
using energon::CookContext;
using energon::Cooker;
using energon::Mapping;
using energon::Sample;
using energon::TaskEncoder;
using energon::testing::check_resumes;
using energon::testing::keys;
using energon::testing::numbers;
using energon::testing::RecipeFolder;
using energon::testing::Stream;
using energon::testing::text_of;
using energon::testing::write_jsonl;

namespace {

// Texts (subflavor crude_type: text), captions with an auxiliary dataset and a folder.
class Crude : public RecipeFolder {
 public:
  Crude()
      : RecipeFolder(
            {{.name = "text", .counts = {30, 25}},
             {.name = "image", .counts = {40}, .first = 100, .prefix = "i"},
             {.name = "extra", .counts = {20, 20}, .first = 100, .prefix = "x", .part = "cap"}}) {
    for (int i = 100; i < 140; ++i) {
      write(fmt::format("files/{}/note.txt", i), fmt::format("note {}", i));
    }
    write_jsonl(*this, "lines.jsonl", 200);
    write("m.yaml", R"(
__class__: MetadatasetV2
splits:
  train:
    blend:
    - {weight: 1, path: text, subflavors: {crude_type: text}}
    - weight: 1
      path: image
      subflavors: {crude_type: image, id: 7}
      aux:
        extra: extra
        files: filesystem://files
)");
  }
};

TaskEncoder cookers() {
  TaskEncoder encoder;
  encoder.cookers.push_back({.cook =
                                 [](Sample crude, CookContext& context) {
                                   const std::string key(crude.keys.front());
                                   const std::string number = std::to_string(std::stoi(key));
                                   Sample cooked;
                                   cooked.fields = {
                                       {"image", crude.fields.at(0).second},
                                       {"caption", context.aux("extra", key + ".cap")},
                                       {"note", context.aux("files", number + "/note.txt")},
                                       {"again", context.primary(".txt")},
                                       {"next", context.primary("000100.txt")}};
                                   return cooked;
                                 },
                             .has_subflavors = R"({"crude_type": "image"})"});
  encoder.cookers.push_back({.cook =
                                 [](Sample crude, CookContext& context) {
                                   crude.fields.emplace_back(
                                       "noise", static_cast<std::int64_t>(context.rng()()));
                                   return crude;
                                 },
                             .has_subflavors = R"({"crude_type": "text"})"});
  return encoder;
}

}  // namespace

TEST_CASE("test_metadataset_all", "[recipes][crude]") {
  const Crude crude;
  Stream stream(energon::train_dataset(crude.file("m.yaml"), {}, {.task_encoder = cookers()}));
  int images = 0;
  for (const Sample& sample : stream.take(200)) {
    CAPTURE(sample.keys.strings());
    const std::string number = std::to_string(numbers(sample).front());
    if (numbers(sample).front() < 100) {
      CHECK(sample.fields.back().first == "noise");
      CHECK(sample.sources.size() == 1);
      continue;
    }
    ++images;
    CHECK(text_of(sample.at("image")) == "i" + number);
    CHECK(text_of(sample.at("caption")) == "x" + number);
    CHECK(text_of(sample.at("note")) == "note " + number);
    CHECK(text_of(sample.at("again")) == "i" + number);
    CHECK(text_of(sample.at("next")) == "i100");
    // The sources list all files fetched, in order.
    REQUIRE(sample.sources.size() == 5);
    CHECK(sample.sources[0].shard->subflavors == R"({"crude_type":"image","id":7})");
    CHECK_THAT(sample.sources[1].shard->dataset_path, Catch::EndsWith("/extra"));
    CHECK(sample.sources[1].index_in_shard == (numbers(sample).front() - 100) % 20);
    CHECK(sample.sources[2].shard->shard_name == number + "/note.txt");
    CHECK_THAT(sample.sources[3].shard->dataset_path, Catch::EndsWith("/image"));
    CHECK(sample.sources[4].index_in_shard == 0);
  }
  CHECK((images > 60 && images < 140));
}

TEST_CASE("test_metadataset_single", "[recipes][crude]") {
  const Crude crude;
  TaskEncoder encoder;
  encoder.cookers.push_back({.cook = [](Sample sample, CookContext& /*context*/) {
    sample.fields = {{"length", static_cast<std::int64_t>(sample.bytes("txt").size())}};
    return sample;
  }});
  Stream stream(
      energon::val_dataset(crude.file("text"), {.split = "train"}, {.task_encoder = encoder}));
  CHECK(std::get<std::int64_t>(stream.take(11).back().at("length").base()) == 2);
}

TEST_CASE("test_no_cooker", "[recipes][crude]") {
  const Crude crude;
  TaskEncoder encoder = cookers();
  encoder.cookers.pop_back();
  CHECK_THROWS_WITH(energon::train_dataset(crude.file("m.yaml"), {}, {.task_encoder = encoder}),
                    Catch::Contains("no cooker") && Catch::Contains(R"({"crude_type":"text"})") &&
                        Catch::Contains("/text"));
}

TEST_CASE("test_unknown_aux", "[recipes][crude]") {
  const Crude crude;
  TaskEncoder encoder;
  encoder.cookers.push_back({.cook = [](Sample sample, CookContext& context) {
    sample.fields.emplace_back("x", context.aux("extras", "a.b"));
    return sample;
  }});
  energon::PipelineData data = energon::open_data(crude.file("m.yaml"));
  data.leaves.erase(data.leaves.begin());
  Stream stream(energon::train_pipeline(data, {.task_encoder = encoder}));
  CHECK_THROWS_WITH(stream.next(), Catch::Contains("'extras'") && Catch::Contains("extra, files"));
}

TEST_CASE("test_cache_pool", "[recipes][crude][fork]") {
  // Captions are fetched in the background and resolved when the sample is encoded.
  const Crude crude;
  TaskEncoder encoder;
  encoder.cache = {.parent_folder = crude.file("cache"), .threads = 2};
  std::filesystem::create_directory(*encoder.cache.parent_folder);
  encoder.cookers.push_back({.cook = [](Sample sample, CookContext& context) {
    const std::string key(sample.keys.front());
    sample.fields = {{"caption", context.lazy_aux("extra", key + ".cap")},
                     {"image", context.lazy_primary(".txt")}};
    return sample;
  }});
  energon::PipelineData data = energon::open_data(crude.file("m.yaml"));
  data.leaves.erase(data.leaves.begin());
  SECTION("resolved by encode_sample") {
    encoder.encode_sample = [](Sample sample, CallContext& /*context*/) {
      for (auto& [name, value] : sample.fields) {
        value = std::get<energon::LazyBytes>(value.base()).get();
      }
      return sample;
    };
    for (const int workers : {0, 2}) {
      CAPTURE(workers);
      energon::SavableDataLoader loader(energon::train_pipeline(data, {.task_encoder = encoder}),
                                        {.worker_config = {.num_workers = workers}});
      for (int i = 0; i < 60; ++i) {
        CAPTURE(i);
        const auto sample = loader.next();
        REQUIRE(sample);
        const std::string number = std::to_string(numbers(*sample).front());
        CHECK(text_of(sample->at("caption")) == "x" + number);
        CHECK(text_of(sample->at("image")) == "i" + number);
      }
    }
    CHECK(std::filesystem::is_empty(*encoder.cache.parent_folder));
  }
  SECTION("not resolved, it cannot leave the worker") {
    energon::SavableDataLoader loader(energon::train_pipeline(data, {.task_encoder = encoder}),
                                      {.worker_config = {.num_workers = 1}});
    CHECK_THROWS_WITH(loader.next(), Catch::Contains("caption") && Catch::Contains("postencode"));
  }
}

TEST_CASE("test_metadataset_restore", "[recipes][crude][fork]") {
  const Crude crude;
  TaskEncoder encoder = cookers();
  encoder.batch = energon::list_fields;
  for (auto& cooker :
       encoder.cookers) {  // one field each, so that all samples can be batched together
    const auto cook = cooker.cook;
    cooker.cook = [cook](Sample sample, CookContext& context) {
      Sample cooked = cook(std::move(sample), context);
      cooked.fields = {{"first", cooked.fields.front().second}};
      return cooked;
    };
  }
  // Packs of two, batches of two packs.
  encoder.select_samples_to_pack = [](std::span<const Sample> samples) {
    std::vector<std::vector<std::size_t>> packs;
    for (std::size_t i = 0; i + 1 < samples.size(); i += 2) {
      packs.push_back({i, i + 1});
    }
    return packs;
  };
  encoder.pack_selected_samples = [](std::span<Sample> samples, CallContext& /*context*/) {
    return energon::list_fields(samples);
  };
  const auto make = energon::train_dataset(crude.file("m.yaml"), {},
                                           {.task_encoder = encoder,
                                            .batch_size = 2,
                                            .packing_buffer_size = 2,
                                            .shuffle_buffer_size = 10});
  Stream stream(make);
  for (const Sample& batch : stream.take(5)) {
    CAPTURE(batch.keys.strings());
    CHECK(batch.keys.size() == 4);
  }
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    check_resumes(make, {.worker_config = {.num_workers = workers}}, {0, 1, 10, 33}, 20);
    energon::SavableDataLoader loader(make, {.worker_config = {.num_workers = workers}});
    for (int i = 0; i < 20; ++i) {
      CAPTURE(i);
      const auto batch = loader.next();
      REQUIRE(batch);
      const Sample rebuilt = loader.restore_sample(batch->restore_key);
      CHECK(digest(rebuilt) == digest(*batch));
      CHECK(rebuilt.keys == batch->keys);
    }
  }
}
