#include "wrappers/batching/image_buckets.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "energon/sample/buffer_allocator.h"
#include "tests/support/call_function.h"
#include "tests/support/error_of.h"
#include "tests/support/plain_tiff.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wrappers/recipe/pipeline.h"

using energon::BucketCrop;
using energon::BucketSize;
using energon::DType;
using energon::ErrorCode;
using energon::ImageBuckets;
using energon::ImageBucketsOptions;
using energon::List;
using energon::Sample;
using energon::SharedBytes;
using energon::Tensor;
using energon::Value;
using energon::testing::call_function;
using energon::testing::error_of;
using energon::testing::owned_bytes;
using energon::testing::plain_tiff;

namespace {

using Shape = std::vector<std::int64_t>;

// Pixel (x, y) has the levels (x, y, 0).
SharedBytes ramp(std::int64_t width, std::int64_t height) {
  return owned_bytes(plain_tiff(width, height, [](std::int64_t x, std::int64_t y) {
    return std::array{static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y), std::uint8_t{0}};
  }));
}

ImageBucketsOptions options_of(std::vector<BucketSize> sizes) {
  ImageBucketsOptions options{.sizes = std::move(sizes)};
  options.image.format = {.dtype = DType::kUInt8, .channels_first = false};
  return options;
}

const std::vector<BucketSize> kSizes = {{32, 32}, {16, 16}, {24, 40}, {40, 24}, {64, 16}};

// For "img" after fit(), drawn with the generator of the `call`-th sample.
Value fitted(const ImageBuckets& buckets, Value image, std::int64_t call = 0) {
  Sample sample;
  sample.set("img", std::move(image));
  const energon::CallResources resources{.seed = 1};
  const energon::RestoreKey key =
      energon::RestoreKey::around(energon::Stage::kMap, {call}, energon::RestoreKey());
  energon::CallContext context(resources, key, call);
  return buckets.fit("img")(std::move(sample), context).at("img");
}

std::vector<int> pixel(const Tensor& image, std::int64_t x, std::int64_t y) {
  const auto* const levels = reinterpret_cast<const std::uint8_t*>(image.data.view.data()) +
                             (y * image.shape[1] + x) * image.shape[2];
  return {levels[0], levels[1], levels[2]};
}

std::string group_of(const ImageBuckets& buckets, Value image) {
  Sample sample;
  sample.set("img", std::move(image));
  return energon::testing::call_function(buckets.group_by("img"), sample).group;
}

}  // namespace

TEST_CASE("an image goes to the bucket with the nearest ratio", "[wrappers][image_buckets]") {
  const ImageBuckets buckets(options_of(kSizes));
  const auto nearest = [&](std::int64_t width, std::int64_t height) {
    return buckets.sizes()[buckets.nearest(width, height)];
  };
  CHECK(nearest(300, 500) == BucketSize{24, 40});
  CHECK(nearest(500, 300) == BucketSize{40, 24});
  CHECK(nearest(1000, 100) == BucketSize{64, 16});
  CHECK(nearest(110, 100) == BucketSize{32, 32});
  // Ratios are compared by factor: 1.29 is the geometric mean of 1 and 5:3; their mean would be
  // 1.33.
  CHECK(nearest(128, 100) == BucketSize{32, 32});
  CHECK(nearest(131, 100) == BucketSize{40, 24});
}

TEST_CASE("of equally near buckets the largest without enlarging is used",
          "[wrappers][image_buckets]") {
  const ImageBuckets buckets(options_of(kSizes));
  CHECK(buckets.nearest(100, 100) == 0);  // 32x32
  CHECK(buckets.nearest(31, 31) == 1);    // 16x16: 32x32 would be enlarged
  CHECK(buckets.nearest(8, 8) == 1);      // the smallest, if all would be enlarged
  // The first, if all are equal. 40x24 and 24x40 are as far from a square.
  CHECK(ImageBuckets(options_of({{40, 24}, {24, 40}})).nearest(50, 50) == 0);
  CHECK(ImageBuckets(options_of({{24, 40}, {40, 24}})).nearest(50, 50) == 0);
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    CAPTURE(i);
    CHECK(buckets.nearest(kSizes[i].width, kSizes[i].height) == i);
  }
}

TEST_CASE("fit covers the bucket and keeps the middle", "[wrappers][image_buckets]") {
  const ImageBuckets buckets(options_of(kSizes));
  // 128x128 is 4 times 32x32: pixel (x, y) is the mean of 4 * 4 pixels.
  const auto square = std::get<Tensor>(fitted(buckets, ramp(128, 128)).base());
  CHECK(square.shape == Shape{32, 32, 3});
  CHECK(pixel(square, 5, 9) == std::vector<int>{22, 38, 0});
  // 60x30 is nearest to 40x24, of which it covers 48x24; 4 columns of each side are cut.
  const auto wide = std::get<Tensor>(fitted(buckets, ramp(60, 30)).base());
  CHECK(wide.shape == Shape{24, 40, 3});
  CHECK(pixel(wide, 0, 0)[0] == 5);    // (4 + 0.5) * 1.25 - 0.5
  CHECK(pixel(wide, 39, 0)[0] == 54);  // (43 + 0.5) * 1.25 - 0.5
  const auto small = std::get<Tensor>(fitted(buckets, ramp(3, 5)).base());
  CHECK(small.shape == Shape{40, 24, 3});
}

TEST_CASE("a random crop depends on the sample only", "[wrappers][image_buckets]") {
  ImageBucketsOptions options = options_of({{8, 8}});
  options.crop = BucketCrop::kRandom;
  const ImageBuckets buckets(options);
  std::vector<int> first_columns;
  for (std::int64_t call = 0; call < 20; ++call) {
    CAPTURE(call);
    const auto image = std::get<Tensor>(fitted(buckets, ramp(100, 8), call).base());
    CHECK(image.shape == Shape{8, 8, 3});
    first_columns.push_back(pixel(image, 0, 0)[0]);
    const auto again = std::get<Tensor>(fitted(buckets, ramp(100, 8), call).base());
    CHECK(pixel(again, 0, 0)[0] == first_columns.back());
  }
  CHECK(*std::ranges::max_element(first_columns) - *std::ranges::min_element(first_columns) > 30);
}

TEST_CASE("images of a list go to the bucket of the first image", "[wrappers][image_buckets]") {
  const ImageBuckets buckets(options_of(kSizes));
  const Value list = List{Value("a caption"), ramp(50, 80), ramp(80, 80)};
  const auto items = std::get<List>(fitted(buckets, list).base());
  REQUIRE(items.size() == 3);
  CHECK(std::get<std::string>(items[0].base()) == "a caption");
  CHECK(std::get<Tensor>(items[1].base()).shape == Shape{40, 24, 3});
  CHECK(std::get<Tensor>(items[2].base()).shape == Shape{40, 24, 3});
  CHECK(group_of(buckets, items) == "24x40");
  CHECK(group_of(buckets, list) == "24x40");
  CHECK(group_of(buckets, List{Value("only text")}) == "no image");
  CHECK(std::get<List>(fitted(buckets, List()).base()).empty());
}

TEST_CASE("groups support encoded images, tensors and orientations", "[wrappers][image_buckets]") {
  const ImageBuckets buckets(options_of(kSizes));
  CHECK(group_of(buckets, ramp(60, 30)) == "40x24");
  CHECK(group_of(buckets, fitted(buckets, ramp(60, 30))) == "40x24");
  ImageBucketsOptions first = options_of(kSizes);
  first.image.format.channels_first = true;
  const ImageBuckets channels_first(first);
  const Value image = fitted(channels_first, ramp(60, 30));
  CHECK(std::get<Tensor>(image.base()).shape == Shape{3, 24, 40});
  CHECK(group_of(channels_first, image) == "40x24");
}

TEST_CASE("a batch has the images of one bucket", "[wrappers][image_buckets]") {
  const energon::testing::TempDir folder;
  energon::testing::TarBuilder tar;
  const std::vector<BucketSize> images = {{100, 100}, {50, 30}, {90, 100},
                                          {60, 36},   {30, 50}, {64, 64}};
  for (std::size_t i = 0; i < images.size(); ++i) {
    tar.file("s" + std::to_string(i) + ".tif",
             std::string(ramp(images[i].width, images[i].height).text()));
  }
  folder.write("a.tar", tar.end().text());
  const ImageBuckets buckets(options_of(kSizes));
  energon::ValOptions options{.batch_size = 2};
  options.task_encoder.encode_sample = buckets.fit("tif");
  options.task_encoder.batch_group_criterion = buckets.group_by("tif");
  options.task_encoder.batch = energon::stack_fields;
  energon::HeapBufferPool memory;
  const auto stream =
      energon::val_dataset(folder.path(), {.split = "train"}, options)({.memory = memory});
  std::vector<std::pair<Shape, std::vector<std::string>>> batches;
  while (const auto batch = stream->next()) {
    batches.emplace_back(batch->tensor("tif").shape, batch->keys.strings());
    CHECK(digest(stream->restore_sample(batch->restore_key)) == digest(*batch));
  }
  using Keys = std::vector<std::string>;
  REQUIRE(batches.size() == 4);
  CHECK(batches[0] == std::pair(Shape{2, 32, 32, 3}, Keys{"s0", "s2"}));
  CHECK(batches[1] == std::pair(Shape{2, 24, 40, 3}, Keys{"s1", "s3"}));
  CHECK(batches[2] == std::pair(Shape{1, 32, 32, 3}, Keys{"s5"}));
  CHECK(batches[3] == std::pair(Shape{1, 40, 24, 3}, Keys{"s4"}));
}

TEST_CASE("a field that is not an image is refused by name", "[wrappers][image_buckets]") {
  const ImageBuckets buckets(options_of(kSizes));
  using Catch::Contains;
  CHECK_THAT(error_of([&] { fitted(buckets, Value("text")); }, ErrorCode::kInvalidArgument),
             Contains("'img'") && Contains("a string"));
  CHECK_THAT(
      error_of([&] { group_of(buckets, Value(std::int64_t{1})); }, ErrorCode::kInvalidArgument),
      Contains("'img'"));
  const SharedBytes junk = owned_bytes("junk");
  CHECK_THAT(error_of([&] { fitted(buckets, junk); }, ErrorCode::kCorruptData), Contains("'img'"));
  const Tensor decoded = std::get<Tensor>(fitted(buckets, ramp(60, 30)).base());
  CHECK_THAT(error_of([&] { fitted(buckets, decoded); }, ErrorCode::kInvalidArgument),
             Contains("leave images as bytes"));
}

TEST_CASE("impossible buckets are refused", "[wrappers][image_buckets]") {
  const auto refused = [](const ImageBucketsOptions& options) {
    return error_of([&] { ImageBuckets{options}; }, ErrorCode::kInvalidArgument);
  };
  using Catch::Contains;
  CHECK_THAT(refused(options_of({})), Contains("at least one"));
  CHECK_THAT(refused(options_of({{0, 8}})), Contains("0"));
  CHECK_THAT(refused(options_of({{8, 8}, {8, 8}})), Contains("8x8 comes twice"));
  ImageBucketsOptions steps = options_of({{8, 16}});
  steps.more_steps = {energon::RandomHorizontalFlip()};
  CHECK_NOTHROW(ImageBuckets(steps));
  steps.more_steps = {energon::PadToSquare()};
  CHECK_THAT(refused(steps), Contains("expected (16, 8, 3)"));
}
