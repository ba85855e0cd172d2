#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/file.h"
#include "io/prepare/prepare.h"
#include "tests/support/error_of.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::Existing;
using energon::first_samples;
using energon::FirstSample;
using energon::parse_field_expression;
using energon::PrepareOptions;
using energon::SampleType;
using energon::TypedSamples;
using energon::testing::error_of;
using energon::testing::TarBuilder;
using energon::testing::TempDir;

namespace {

void write_first_shards(const TempDir& folder) {
  folder.write("a.tar", TarBuilder()
                            .file("__meta__", "no sample")
                            .file("1.json", "{}")
                            .file("1.jpg", "image")
                            .directory("d/")
                            .file("2.json", "{}")
                            .file("2.png", "other")
                            .end()
                            .text());
  folder.write("b.tar", TarBuilder().file("3.txt", "three").end().text());
}

TypedSamples captions(const std::string& image, const std::string& caption) {
  return {.type = SampleType::kCaptioning,
          .field_map = {.fields = {{"image", parse_field_expression(image)},
                                   {"caption", parse_field_expression(caption)}}}};
}

energon::PrepareReport prepared(const TempDir& folder, const PrepareOptions& options) {
  class Silent final : public energon::ProgressSink {
    void on_progress(const energon::PrepareProgress& /*progress*/) override {}
  } silent;
  return prepare(folder.path(), options, silent);
}

std::string yaml_in(const TempDir& folder) {
  return energon::read_file(folder.file(".nv-meta/dataset.yaml"));
}

}  // namespace

TEST_CASE("the first samples come from the first shard that is not excluded", "[io][prepare]") {
  const TempDir folder;
  write_first_shards(folder);
  const std::vector<FirstSample> samples = first_samples(folder.path());
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].key == "1");
  CHECK(samples[0].shard == "a.tar");
  REQUIRE(samples[0].parts.size() == 2);
  CHECK(samples[0].parts[1].name == "jpg");
  CHECK(samples[0].parts[1].size_bytes == 5);
  CHECK(part_names_of(samples) == std::vector<std::string>{"json", "jpg", "png"});
  CHECK(first_samples(folder.path(), {.max_samples = 1}).size() == 1);
  CHECK(part_names_of(first_samples(folder.path(), {.exclude_regexes = {"^a"}})) ==
        std::vector<std::string>{"txt"});
  CHECK_THAT(error_of([&] { first_samples(folder.path(), {.exclude_regexes = {"tar"}}); },
                      ErrorCode::kNotFound),
             Catch::Contains("no shards to prepare"));
}

TEST_CASE("the first samples of a damaged shard are an error with its byte", "[io][prepare]") {
  const TempDir folder;
  const std::string tar = TarBuilder().file("1.txt", "one").file("2.txt", "two").end().text();
  for (std::size_t size = 0; size < tar.size(); size += 97) {
    CAPTURE(size);
    folder.write("a.tar", tar.substr(0, size));
    try {
      const std::size_t count = first_samples(folder.path()).size();
      CHECK(count <= 2);
    } catch (const energon::Error& error) {
      CHECK(error.code() == ErrorCode::kCorruptData);
      CHECK_THAT(error.what(), Catch::Contains("a.tar"));
    }
  }
}

TEST_CASE("an expression without any part of the first samples is refused", "[io][prepare]") {
  const std::vector<std::string> parts = {"json", "jpg"};
  CHECK(check_parts_occur(captions("jpg", "json[a],json[b]").field_map, parts).empty());
  const auto warnings = check_parts_occur(captions("jpg,png", "json[a],txt").field_map, parts);
  REQUIRE(warnings.size() == 2);
  CHECK_THAT(warnings[0],
             Catch::Contains("the first samples lack these parts for field 'image': png"));
  CHECK_THAT(error_of([&] { check_parts_occur(captions("png", "json[a]").field_map, parts); },
                      ErrorCode::kInvalidArgument),
             Catch::Contains("'image' is made from 'png'") &&
                 Catch::Contains("their parts are: json, jpg"));
}

TEST_CASE("prepare writes the sample type", "[io][prepare]") {
  const TempDir folder;
  write_first_shards(folder);
  const auto report = prepared(folder, {.samples = captions("jpg,png,webp", "json[caption]")});
  REQUIRE(report.warnings.size() == 1);
  CHECK_THAT(report.warnings[0], Catch::Contains("'image': webp"));
  CHECK(yaml_in(folder) ==
        "sample_type:\n  __module__: megatron.energon\n  __class__: CaptioningSample\n"
        "field_map:\n  image: jpg,png,webp\n  caption: json[caption]\n");
  // Without a type, the existing definition is kept; with one, it is replaced.
  prepared(folder, {.existing = Existing::kOverwrite});
  CHECK_THAT(yaml_in(folder), Catch::Contains("CaptioningSample"));
  prepared(folder, {.existing = Existing::kOverwrite, .samples = TypedSamples()});
  CHECK_THAT(yaml_in(folder), Catch::Contains("CrudeWebdataset"));
  prepared(folder, {.existing = Existing::kUpdate, .samples = captions("png", "json[c]")});
  CHECK_THAT(yaml_in(folder), Catch::Contains("image: png"));
}

TEST_CASE("prepare refuses wrong fields before it scans", "[io][prepare]") {
  const TempDir folder;
  write_first_shards(folder);
  const auto refused = [&](const PrepareOptions& options) {
    std::string text = error_of([&] { prepared(folder, options); }, ErrorCode::kInvalidArgument);
    CHECK_THROWS(energon::read_file(folder.file(".nv-meta/.info.json")));
    return text;
  };
  CHECK_THAT(refused({.samples = captions("jpg", "txt")}),
             Catch::Contains("their parts are: json, jpg, png"));
  CHECK_THAT(refused({.samples = TypedSamples{.type = SampleType::kText}}),
             Catch::Contains("lacks 'text'"));
  CHECK_THAT(refused({.dataset_yaml_name = std::nullopt, .samples = TypedSamples()}),
             Catch::Contains("dataset_yaml_name"));
  folder.write(".nv-meta/dataset.yaml", "subflavors: {a: 1}\n");
  CHECK_THAT(refused({.samples = captions("jpg", "json[a]")}),
             Catch::Contains("--force-overwrite") && Catch::Contains("dataset.yaml"));
}
