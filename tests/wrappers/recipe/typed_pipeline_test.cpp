// Datasets whose dataset.yaml describes typed samples, through the pipelines.

#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/order/worker_config.h"
#include "energon/sample/restore_key.h"
#include "energon/stage/call_context.h"
#include "io/file.h"
#include "media/tokens/tokenizer.h"
#include "media/transform/image_transform.h"
#include "tests/support/error_of.h"
#include "tests/support/tar_builder.h"
#include "tests/wrappers/typed_dataset.h"
#include "wrappers/batching/image_buckets.h"
#include "wrappers/batching/ragged_batch.h"
#include "wrappers/recipe/order_pipeline.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/types/typed_structs.h"

using energon::CaptioningSample;
using energon::CookContext;
using energon::DataOptions;
using energon::Dataset;
using energon::ErrorCode;
using energon::HeapBufferPool;
using energon::PipelineFactory;
using energon::Sample;
using energon::SampleType;
using energon::ValOptions;
using energon::testing::error_of;
using energon::testing::kCaptionsYaml;
using energon::testing::TempDir;
using energon::testing::write_captions;

namespace {

const DataOptions kTyped = {.split = "train", .typed = true};

// All items of the only stream.
std::vector<Sample> all_of(const PipelineFactory& make) {
  HeapBufferPool memory;
  const auto stream = make({.memory = memory});
  std::vector<Sample> items;
  while (auto item = stream->next()) {
    items.push_back(std::move(*item));
  }
  return items;
}

std::vector<std::string> names_in(const Sample& sample) {
  std::vector<std::string> names;
  for (const auto& [name, value] : sample.fields) {
    names.push_back(name);
  }
  return names;
}

std::string blend_of(const TempDir& folder, const std::string& entries) {
  return folder.write("m.yaml", "__class__: MetadatasetV2\nsplits: {train: " + entries + "}\n");
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a pipeline makes the samples that dataset.yaml describes", "[wrappers][typed]") {
  const TempDir folder;
  write_captions(folder, "ds", 4, kCaptionsYaml);
  const auto samples = all_of(energon::val_dataset(folder.file("ds"), kTyped));
  REQUIRE(samples.size() == 4);
  for (const Sample& sample : samples) {
    CAPTURE(sample.keys.strings());
    CHECK(names_in(sample) == Names{"image", "caption"});
    const auto typed = CaptioningSample::from(sample);
    CHECK(typed.key == sample.keys.front());
    CHECK(typed.caption == "c" + std::to_string(std::stoi(typed.key)));
    CHECK(typed.image.shape == std::vector<std::int64_t>{3, 1, 2});
    CHECK(sample.sources.size() == 1);
  }
  // The values of the PNG from 0 to 1, channels first: 255, 0, 51 and 0, 102, 255.
  const auto* const values =
      reinterpret_cast<const float*>(samples[0].tensor("image").data.view.data());
  CHECK(std::vector<float>(values, values + 6) == std::vector<float>{1, 0, 0, 0.4F, 0.2F, 1});
  // As the decoder of the task encoder is set.
  ValOptions options;
  options.task_encoder.decoder = energon::SampleDecoderOptions{.image = "rgb8"};
  const auto bytes = all_of(energon::val_dataset(folder.file("ds"), kTyped, options));
  CHECK(bytes.at(1).tensor("image").dtype == energon::DType::kUInt8);
  CHECK(bytes.at(1).tensor("image").shape == std::vector<std::int64_t>{1, 2, 3});
}

TEST_CASE("typed samples keep only the parts that they need", "[wrappers][typed]") {
  const TempDir folder;
  write_captions(folder, "ds", 2, kCaptionsYaml);
  const auto data = energon::open_data(folder.file("ds"), kTyped);
  CHECK(data.warnings.empty());
  REQUIRE(data.leaves.at(0).typed);
  CHECK(data.leaves[0].typed->type == SampleType::kCaptioning);
  const auto& dataset = dynamic_cast<const energon::Webdataset&>(*data.leaves[0].dataset);
  CHECK(dataset.options().part_filter == Names{"png", "jpg", "json"});
  // By default, parts are as stored, with a warning.
  const auto plain = energon::open_data(folder.file("ds"), {.split = "train"});
  CHECK_FALSE(plain.leaves.at(0).typed);
  CHECK(plain.warnings.size() == 1);
  CHECK(names_in(all_of(energon::val_dataset(folder.file("ds"), {.split = "train"})).at(0)) ==
        Names{"json", "png", "txt", "bad.json"});
}

TEST_CASE("a blend may have typed and crude samples", "[wrappers][typed]") {
  const TempDir folder;
  write_captions(folder, "typed", 2, kCaptionsYaml);
  write_captions(folder, "crude", 2, "__class__: CrudeWebdataset\npart_filter: [txt, json]\n", 10);
  folder.write("lines.jsonl", "{\"n\": 1}\n");
  const std::string path =
      blend_of(folder, "{blend_epochized: [{path: typed}, {path: crude}, {path: lines.jsonl}]}");
  const auto samples = all_of(energon::val_dataset(path, kTyped));
  REQUIRE(samples.size() == 5);
  CHECK(samples[0].text("caption") == "c0");
  CHECK(names_in(samples[2]) == Names{"json", "txt"});
  CHECK(samples[2].text("txt") == "t10");
  CHECK(samples[2].mapping("json").at(1).first == "label");
  CHECK(samples[4].mapping("json").at(0).first == "n");
  // Cookers apply to the crude samples.
  ValOptions options;
  options.task_encoder.cookers = {{.cook = [](Sample crude, CookContext&) {
    crude.set("cooked", true);
    return crude;
  }}};
  const auto cooked = all_of(energon::val_dataset(path, kTyped, options));
  CHECK(cooked.at(0).find("cooked") == nullptr);
  CHECK(cooked.at(2).boolean("cooked"));
}

TEST_CASE("a typed sample can be restored, and encoded as its struct", "[wrappers][typed]") {
  const TempDir folder;
  write_captions(folder, "ds", 6, kCaptionsYaml);
  energon::TrainOptions options;
  options.repeat = false;
  options.task_encoder.encode_sample = [](Sample sample, energon::CallContext&) {
    auto typed = CaptioningSample::from(sample);
    typed.caption += "!";
    return typed.to_sample();
  };
  HeapBufferPool memory;
  const auto stream =
      energon::train_dataset(folder.file("ds"), kTyped, options)({.memory = memory});
  std::size_t count = 0;
  while (const auto sample = stream->next()) {
    const Sample again = stream->restore_sample(sample->restore_key);
    CHECK(digest(again) == digest(*sample));
    CHECK(again.text("caption").ends_with('!'));
    CHECK(sample->sources.size() == 1);
    ++count;
  }
  CHECK(count == 6);
}

TEST_CASE("the order of typed samples is known without reading them", "[wrappers][typed]") {
  const TempDir folder;
  write_captions(folder, "ds", 3, kCaptionsYaml);
  HeapBufferPool memory;
  const auto make = energon::val_dataset(folder.file("ds"), kTyped);
  energon::Config config;
  config["pipeline"] = make({.memory = memory})->config();
  const auto order = all_of(
      energon::order_pipeline(energon::open_data(folder.file("ds"), kTyped), ValOptions(), config));
  const auto samples = all_of(make);
  REQUIRE(order.size() == samples.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    CAPTURE(i);
    CHECK(order[i].restore_key == samples[i].restore_key);
  }
}

TEST_CASE("a sample without a required field fails with key, field and expressions",
          "[wrappers][typed]") {
  const TempDir folder;
  write_captions(folder, "ds", 2,
                 "sample_type: {__class__: TextSample}\nfield_map: {text: 'json[title],cls'}\n");
  const std::string error = error_of(
      [&] { all_of(energon::val_dataset(folder.file("ds"), kTyped)); }, ErrorCode::kNotFound);
  CHECK_THAT(error, Catch::Contains("field 'text' of TextSample") &&
                        Catch::Contains("'json[title]' (no 'title' among caption, label)") &&
                        Catch::Contains("000000"));
  ValOptions skipping;
  skipping.errors.standard = {.action = energon::FailureAction::kSkip, .tolerance = 0};
  CHECK(all_of(energon::val_dataset(folder.file("ds"), kTyped, skipping)).empty());
}

TEST_CASE("datasets that cannot be typed are refused when they are opened", "[wrappers][typed]") {
  const TempDir folder;
  write_captions(
      folder, "ds", 1,
      "sample_type: {__class__: VQASample}\nsample_loader: a.py:b\npart_filter: a.py:c\n");
  const auto refused = [&](const std::string& path, ErrorCode code) {
    CHECK_NOTHROW(energon::open_data(path, {.split = "train"}));
    return error_of([&] { energon::open_data(path, kTyped); }, code);
  };
  CHECK_THAT(refused(folder.file("ds"), ErrorCode::kUnsupported),
             Catch::Contains("a Python function") && Catch::Contains("ds/.nv-meta/dataset.yaml"));
  folder.write("ds/.nv-meta/dataset.yaml",
               "sample_type: {__class__: VQASample}\nfield_map: {image: png}\n");
  CHECK_THAT(refused(blend_of(folder, "{path: ds}"), ErrorCode::kInvalidArgument),
             Catch::Contains("lacks 'context'"));
}

TEST_CASE("a function of the program makes the samples of a class that the library does not have",
          "[wrappers][typed]") {
  const TempDir folder;
  write_captions(folder, "own", 2,
                 "__module__: my.data\n__class__: MyWebdataset\nspec: {size: 3}\n"
                 "subflavors: {kind: own}\n");
  write_captions(folder, "typed", 2, kCaptionsYaml, 10);
  const std::string path =
      blend_of(folder, "{blend_epochized: [{path: own, subflavors: {b: 1}}, {path: typed}]}");
  DataOptions options = kTyped;
  std::vector<energon::ForeignDataset> asked;
  options.foreign =
      [&](const energon::ForeignDataset& dataset) -> std::optional<energon::ForeignSamples> {
    asked.push_back(dataset);
    return energon::ForeignSamples{.load =
                                       [](Sample sample, energon::CallContext&) {
                                         // Keys and sources need not be copied.
                                         Sample made;
                                         made.set("own", std::string(sample.bytes("txt").text()));
                                         return made;
                                       },
                                   .is_crude = true,
                                   .parts = {Names{"txt"}},
                                   .identity = "my.data.MyWebdataset"};
  };
  ValOptions val;
  val.task_encoder.cookers = {{.cook = [](Sample crude, CookContext&) {
    crude.set("cooked", true);
    return crude;
  }}};
  const auto samples = all_of(energon::val_dataset(path, options, val));
  REQUIRE(samples.size() == 4);
  CHECK(names_in(samples[0]) == Names{"own", "cooked"});
  CHECK(samples[1].text("own") == "t1");
  CHECK(samples[1].keys.strings() == Names{"000001"});
  CHECK(samples[1].sources.size() == 1);
  CHECK(names_in(samples[2]) == Names{"image", "caption"});
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].leaf == 0);
  CHECK(asked[0].path == folder.file("own"));
  const energon::ForeignDataset::Column& column = asked[0].columns.at(0);
  CHECK(column.is_foreign);
  CHECK(column.split_part == "train");
  CHECK(column.subflavors->dump() == R"({"kind":"own","b":1})");
  CHECK(column.yaml->dump() ==
        R"({"__module__":"my.data","__class__":"MyWebdataset","spec":{"size":3},)"
        R"("subflavors":{"kind":"own"}})");
  const energon::PipelineData data = energon::open_data(path, options);
  CHECK(data.warnings.empty());
  CHECK(data.leaves[0].dataset->config()["loaded_by"] == "my.data.MyWebdataset");
  CHECK_FALSE(data.leaves[1].dataset->config().contains("loaded_by"));
  // Who returns nothing has the library refuse the data.
  options.foreign = [](const energon::ForeignDataset&) { return std::nullopt; };
  CHECK_THAT(error_of([&] { energon::open_data(path, options); }, ErrorCode::kInvalidArgument),
             Catch::Contains("unknown sample type 'my.data.MyWebdataset'") &&
                 Catch::Contains("Python reads it with sample_types="));
}

// python/tests/test_transforms.py expects the same numbers.
TEST_CASE("a decoder transforms images with the random numbers of their sample",
          "[wrappers][typed]") {
  const TempDir folder;
  energon::testing::TarBuilder tar;
  for (const std::string key : {"a", "b", "c"}) {
    tar.file(key + ".png", energon::testing::small_png());
  }
  folder.write("data-0.tar", tar.end().text());
  const energon::ImageTransform transform(
      {energon::RandomResizedCrop{.width = 8, .height = 6, .scale = {0.2, 1}},
       energon::RandomHorizontalFlip{}, energon::ColorJitter{.brightness = 0.5, .hue = 0.2}},
      {.format = {.dtype = energon::DType::kUInt8}});
  ValOptions options;
  options.task_encoder.decoder = energon::SampleDecoderOptions{.transform = transform};
  std::vector<std::uint64_t> sums;
  for (const Sample& sample : all_of(energon::val_dataset(folder.path(), {}, options))) {
    const energon::Tensor image = sample.tensor("png");
    CHECK(image.shape == std::vector<std::int64_t>{3, 6, 8});
    // As by hand, with the context of such a call.
    const energon::CallResources resources = {.seed = energon::worker_seed(0, 0)};
    energon::CallContext context(resources, sample.restore_key, 0);
    energon::ImageTransform own = transform;
    const energon::Tensor expected =
        decode_transformed(energon::as_bytes(energon::testing::small_png()), own, context.rng(),
                           energon::heap_memory());
    CHECK(image.data.text() == expected.data.text());
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < image.data.view.size(); ++i) {
      sum += (i + 1) * std::to_integer<std::uint64_t>(image.data.view[i]);
    }
    sums.push_back(sum);
  }
  CHECK(sums == std::vector<std::uint64_t>{1706592, 641928, 1244472});
}

namespace {

// Depends on all bytes and their places.
std::uint64_t weighted_sum(const energon::Tensor& tensor) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < tensor.data.view.size(); ++i) {
    sum += (i + 1) * std::to_integer<std::uint64_t>(tensor.data.view[i]);
  }
  return sum;
}

}  // namespace

// python/tests/test_native_functions.py expects the same numbers.
TEST_CASE("tokens, image buckets and ragged batches of a pipeline", "[wrappers][sentencepiece]") {
  const std::string data = std::string(ENERGON_SOURCE_DIR) + "/tests/media/";
  const TempDir folder;
  energon::testing::TarBuilder tar;
  for (int i = 0; i < 6; ++i) {
    const std::string key = std::to_string(i);
    tar.file(key + ".jpg",
             energon::read_file(data + "image/data/" + (i % 2 == 0 ? "420.jpg" : "exif6.jpg")));
    tar.file(key + ".txt", "a dog runs in the park " + key);
  }
  folder.write("data-0.tar", tar.end().text());
  const energon::ImageBuckets buckets({.sizes = {{24, 24}, {32, 20}, {20, 32}},
                                       .crop = energon::BucketCrop::kRandom,
                                       .image = {.format = {.dtype = energon::DType::kUInt8}},
                                       .more_steps = {energon::RandomHorizontalFlip{}}});
  ValOptions options{.batch_size = 2};
  options.task_encoder.decoder = energon::SampleDecoderOptions{.image = ""};
  options.task_encoder.tokenizer = energon::TokenizeOptions{
      .tokenizer = energon::open_sentencepiece(
          data + "tokens/data/unigram.model",
          {.add_end = true, .sampling = {{.candidates = 8, .alpha = 0.2}}}),
      .max_length = 12};
  options.task_encoder.encode_sample = buckets.fit("jpg");
  options.task_encoder.batch_group_criterion = buckets.group_by("jpg");
  options.task_encoder.batch = energon::ragged_fields({.fields = {"tokens"}});
  std::vector<std::string> keys;
  std::vector<std::uint64_t> sums;
  for (const Sample& batch : all_of(energon::val_dataset(folder.path(), {}, options))) {
    const auto ragged = energon::Ragged::from(batch.at("tokens"));
    for (const auto& key : batch.keys.strings()) {
      keys.push_back(key);
    }
    sums.push_back(weighted_sum(batch.tensor("jpg")));
    sums.push_back(weighted_sum(ragged.values));
    sums.push_back(weighted_sum(ragged.offsets));
  }
  CHECK(keys == std::vector<std::string>{"0", "2", "1", "3", "4", "5"});
  CHECK(sums == std::vector<std::uint64_t>{669579877, 31591, 516, 826015944, 35683, 516, 164468862,
                                           10411, 108, 195561252, 7146, 108});
}
