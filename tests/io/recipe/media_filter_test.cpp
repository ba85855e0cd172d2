// `media_filter` of a metadataset.

#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "io/recipe/metadataset.h"
#include "io/recipe/recipe.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::load_recipe;
using energon::MediaBound;
using energon::MediaCondition;
using energon::MediaProperty;
using energon::MetadatasetPath;
using energon::parse_metadataset;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;

namespace {

std::string document(const std::string& path, const std::string& filter) {
  return fmt::format(
      "__class__: MetadatasetV2\nsplits:\n  train:\n    path: {}\n    media_filter: {}\n", path,
      filter);
}

MediaCondition parsed_filter(const std::string& filter) {
  const auto file = parse_metadataset(document("d", filter), "m.yaml");
  return std::get<MetadatasetPath>(file.splits.at(0).entries.at(0).source).media_filter.value();
}

}  // namespace

TEST_CASE("a metadataset filters by media metadata", "[io][formats][media][recipe]") {
  CHECK(parsed_filter(
            "{min_width: 256, max_duration: 30.5, min_aspect_ratio: 0.5, max_width: 1024}") ==
        MediaCondition{.bounds = {{.property = MediaProperty::kWidth, .min = 256, .max = 1024},
                                  {.property = MediaProperty::kDuration, .max = 30.5},
                                  {.property = MediaProperty::kAspectRatio, .min = 0.5}}});
  CHECK(parsed_filter("{part: seg.png, max_height: 0}") ==
        MediaCondition{.part = "seg.png",
                       .bounds = {{.property = MediaProperty::kHeight, .max = 0}}});
  for (const std::string property : {"fps", "frames", "channels", "sample_rate"}) {
    CAPTURE(property);
    CHECK(to_string(parsed_filter(fmt::format("{{min_{}: 1}}", property)).bounds.at(0).property) ==
          property);
  }
}

TEST_CASE("errors in a media filter name the line", "[io][formats][media][recipe]") {
  const std::pair<std::string, std::string> cases[] = {
      {"{min_size: 3}", "media_filter.min_size is not known"},
      {"{width: 3}", "media_filter.width is not known"},
      {"{min_: 3}", "is not known"},
      {"{part: jpg}", "media_filter must have a bound"},
      {"{}", "media_filter must have a bound"},
      {"[min_width]", "media_filter"},
      {"{min_width: big}", "media_filter.min_width"},
      {"{min_width: -1}", "must be a number of at least 0"},
      {"{min_width: .nan}", "media_filter.min_width"},
      {"{max_width: 2, min_width: 3}", "matches nothing: width is from 3 to 2"},
      {"{part: [a], min_width: 3}", "media_filter.part"},
  };
  for (const auto& [filter, problem] : cases) {
    const auto [code, message] =
        error_of([&, filter = filter] { parse_metadataset(document("d", filter), "m.yaml"); });
    CAPTURE(filter, message);
    CHECK(code == ErrorCode::kInvalidArgument);
    CHECK(contains(message, problem));
    CHECK(contains(message, "line 5"));
  }
  const auto join = error_of([] {
    parse_metadataset(
        "__class__: MetadatasetV2\nsplits:\n  train:\n    join: [{path: a}]\n"
        "    joiner: {__class__: C}\n    media_filter: {min_width: 3}\n",
        "m.yaml");
  });
  CHECK(contains(join.second, "media_filter"));
}

TEST_CASE("a media filter belongs to a prepared dataset", "[io][formats][media][recipe]") {
  const TempDir folder;
  folder.write("d/a.tar", make_shard(0, 3));
  folder.write("m.yaml", document("d", "{min_width: 3}"));
  folder.write("outer.yaml", document("m.yaml", "{min_width: 3}"));
  folder.write("x.jsonl", "{}\n");
  folder.write("lines.yaml", document("x.jsonl", "{min_width: 3}"));
  for (const char* const file : {"m.yaml", "outer.yaml", "lines.yaml"}) {
    CAPTURE(file);
    const auto [code, message] = error_of([&] { load_recipe(folder.file(file), "train"); });
    CHECK(code == ErrorCode::kInvalidArgument);
    CHECK(contains(message, "only prepared datasets have a media_filter"));
  }
  prepare_folder(folder.file("d"));
  const auto recipe = load_recipe(folder.file("m.yaml"), "train");
  CHECK(to_string(recipe.leaves.at(0).media_filter.value()) == "width >= 3");
}
