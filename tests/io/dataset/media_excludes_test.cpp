// Samples whose media do not satisfy a condition are skipped, like excluded samples.

#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/dataset/dataset_folder.h"
#include "io/error.h"
#include "io/index/media_metadata.h"
#include "io/prepare/media_update.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::fulfils;
using energon::MediaBound;
using energon::MediaCondition;
using energon::MediaKind;
using energon::MediaMetadata;
using energon::MediaProperty;
using energon::MediaUpdate;
using energon::open_split;
using energon::OpenOptions;
using energon::ShardSet;
using energon::value_of;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;

namespace {

const MediaMetadata kImage{.width = 40, .height = 20, .format = "PNG", .mode = "RGB"};
const MediaMetadata kVideo{.kind = MediaKind::kAv,
                           .width = 192,
                           .height = 108,
                           .video_duration = 3,
                           .video_frames = 90,
                           .video_fps = 30,
                           .audio_duration = 2.5,
                           .audio_channels = 2,
                           .audio_sample_rate = 44100};
const MediaMetadata kSound{.kind = MediaKind::kAv, .audio_duration = 7, .audio_channels = 1};

MediaCondition at_least(MediaProperty property, double least) {
  return {.bounds = {{.property = property, .min = least}}};
}

bool is_kept(std::vector<MediaMetadata> media, const MediaCondition& condition) {
  return fulfils(media, condition);
}

// Seven samples in two shards. Part "bin" of sample i has a width of 10 * i, but sample 2 has none.
void write_dataset(const TempDir& folder) {
  folder.write("a.tar", make_shard(0, 3));
  folder.write("b.tar", make_shard(3, 4));
  prepare_folder(folder.path());
  MediaUpdate update(folder.path());
  for (int i = 0; i < 7; ++i) {
    if (i != 2) {
      update.add(fmt::format("{:06d}.bin", i), {.width = 10 * i, .height = 10});
    }
  }
  update.add("000006.txt", {.width = 1});
  update.commit();
}

// "shard/sample" of each skipped sample.
std::vector<std::string> left_out(const TempDir& folder, const MediaCondition& condition) {
  const ShardSet set = open_split(folder.path(), {.media_filter = condition});
  std::vector<std::string> found;
  for (const energon::SampleExclude& exclude : set.excludes) {
    found.push_back(fmt::format("{}/{}", exclude.shard, exclude.sample));
  }
  return found;
}

}  // namespace

TEST_CASE("properties come from the image, the video or the audio", "[io][formats][media]") {
  CHECK(value_of(kImage, MediaProperty::kWidth) == 40.0);
  CHECK(value_of(kImage, MediaProperty::kAspectRatio) == 2.0);
  CHECK_FALSE(value_of(kImage, MediaProperty::kDuration));
  CHECK(value_of(kVideo, MediaProperty::kHeight) == 108.0);
  CHECK(value_of(kVideo, MediaProperty::kDuration) == 3.0);
  CHECK(value_of(kVideo, MediaProperty::kFps) == 30.0);
  CHECK(value_of(kVideo, MediaProperty::kFrames) == 90.0);
  CHECK(value_of(kVideo, MediaProperty::kSampleRate) == 44100.0);
  CHECK(value_of(kSound, MediaProperty::kDuration) == 7.0);
  CHECK(value_of(kSound, MediaProperty::kChannels) == 1.0);
  CHECK_FALSE(value_of(kSound, MediaProperty::kWidth));
  CHECK_FALSE(value_of(MediaMetadata{.width = 3, .height = 0}, MediaProperty::kAspectRatio));
}

TEST_CASE("a bound needs a medium with the property, and applies to all media with it",
          "[io][formats][media]") {
  const MediaCondition wide = at_least(MediaProperty::kWidth, 40);
  CHECK(is_kept({kImage}, wide));
  CHECK(is_kept({kImage, kSound}, wide));
  CHECK(is_kept({kImage, kVideo}, wide));
  CHECK_FALSE(is_kept({kSound}, wide));
  CHECK_FALSE(is_kept({}, wide));
  CHECK_FALSE(is_kept({kImage, kVideo}, at_least(MediaProperty::kWidth, 41)));
  MediaCondition both = wide;
  both.bounds.push_back({.property = MediaProperty::kDuration, .max = 5});
  CHECK(is_kept({kVideo}, both));
  CHECK_FALSE(is_kept({kImage}, both));
  CHECK_FALSE(is_kept({kImage, kSound}, both));
}

TEST_CASE("equal conditions have the same text", "[io][formats][media]") {
  const MediaBound ratio{.property = MediaProperty::kAspectRatio, .min = 0.5, .max = 2};
  const MediaBound width{.property = MediaProperty::kWidth, .min = 256};
  const MediaBound length{.property = MediaProperty::kDuration, .max = 30};
  CHECK(to_string(MediaCondition{.part = "jpg", .bounds = {ratio, width}}) ==
        "jpg: width >= 256, 0.5 <= aspect_ratio <= 2");
  CHECK(to_string(MediaCondition{.bounds = {length}}) == "duration <= 30");
}

TEST_CASE("samples that do not satisfy a media filter are excluded", "[io][formats][media]") {
  const TempDir folder;
  write_dataset(folder);
  using List = std::vector<std::string>;
  MediaCondition condition{.part = "bin",
                           .bounds = {{.property = MediaProperty::kWidth, .min = 30}}};
  CHECK(left_out(folder, condition) == List{"0/0", "0/1", "0/2"});
  condition.bounds.front().max = 50;
  CHECK(left_out(folder, condition) == List{"0/0", "0/1", "0/2", "1/3"});
  condition.part = "";  // the text of sample 6, too, is 1 wide
  condition.bounds.front().max.reset();
  CHECK(left_out(folder, condition) == List{"0/0", "0/1", "0/2", "1/3"});
  const ShardSet set = open_split(folder.path(), {.media_filter = condition});
  CHECK(set.media_filter == "width >= 30");
  CHECK(set.shards.at(0).sample_count == 3);
  CHECK(open_split(folder.path()).excludes.empty());
}

TEST_CASE("a media filter and an exclude list are combined", "[io][formats][media]") {
  const TempDir folder;
  write_dataset(folder);
  folder.write(
      ".nv-meta/split.yaml",
      "split_parts:\n  train:\n  - b.tar\n  - a.tar\nexclude:\n- b.tar/000004\n- b.tar/000003\n");
  CHECK(left_out(folder, at_least(MediaProperty::kWidth, 40)) ==
        std::vector<std::string>{"0/0", "0/1", "0/3", "1/0", "1/1", "1/2"});
}

TEST_CASE("a media filter without metadata, or that leaves no samples, is an error",
          "[io][formats][media]") {
  const TempDir folder;
  folder.write("a.tar", make_shard(0, 3));
  const OpenOptions options{.media_filter = at_least(MediaProperty::kWidth, 1000)};
  const auto plain = error_of([&] { open_split(folder.path(), options); });
  CHECK(plain.first == ErrorCode::kInvalidArgument);
  CHECK(contains(plain.second, "only prepared datasets have"));
  prepare_folder(folder.path());
  const auto without = error_of([&] { open_split(folder.path(), options); });
  CHECK(without.first == ErrorCode::kInvalidArgument);
  CHECK(contains(without.second, "energon prepare-media " + folder.path()));
  {
    MediaUpdate update(folder.path());
    update.add("000001.bin", kImage);
    update.commit();
  }
  const auto nothing = error_of([&] { open_split(folder.path(), options); });
  CHECK(nothing.first == ErrorCode::kInvalidArgument);
  CHECK(contains(nothing.second,
                 "of 3 samples, 1 have media metadata, and none satisfies 'width >= 1000'"));
}
