#include "wrappers/batching/image_buckets.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"
#include "media/image/image_decoder.h"
#include "media/transform/image_transform.h"
#include "media/transform/normalize.h"
#include "media/transform/pixels.h"

namespace energon {
namespace {

std::string name_of(const BucketSize& size) {
  return fmt::format("{}x{}", size.width, size.height);
}

// The factor between the ratios of both sizes, at least 1. Products of sides are exact.
double ratio_factor(const BucketSize& image, const BucketSize& bucket) {
  const auto a = static_cast<double>(image.width * bucket.height);
  const auto b = static_cast<double>(bucket.width * image.height);
  return std::max(a, b) / std::min(a, b);
}

// Smaller is better.
using BucketRank = std::pair<double, double>;

BucketRank rank_of(const BucketSize& image, const BucketSize& bucket) {
  const bool is_enlarged = image.width < bucket.width || image.height < bucket.height;
  const auto pixels = static_cast<double>(bucket.width * bucket.height);
  return {ratio_factor(image, bucket), is_enlarged ? pixels : -pixels};
}

// The smallest size with the ratio of `image` that covers `bucket`; one side is equal.
ResizeTo covering(const BucketSize& image, const BucketSize& bucket) {
  const auto scaled = [](std::int64_t side, std::int64_t to, std::int64_t from) {
    return (side * to + from / 2) / from;
  };
  if (image.width * bucket.height >= bucket.width * image.height) {
    return {.width = std::max(bucket.width, scaled(image.width, bucket.height, image.height)),
            .height = bucket.height};
  }
  return {.width = bucket.width,
          .height = std::max(bucket.height, scaled(image.height, bucket.width, image.width))};
}

ImageTransform transform_into(const BucketSize& image, const BucketSize& bucket,
                              const ImageBucketsOptions& options) {
  std::vector<ImageStep> steps = {covering(image, bucket)};
  if (options.crop == BucketCrop::kCenter) {
    steps.emplace_back(CenterCrop{.width = bucket.width, .height = bucket.height});
  } else {
    steps.emplace_back(RandomCrop{.width = bucket.width, .height = bucket.height});
  }
  steps.insert(steps.end(), options.more_steps.begin(), options.more_steps.end());
  return ImageTransform(std::move(steps), options.image);
}

// Checks that steps and options form a valid ImageTransform and keep the size of the bucket.
void check_steps(const BucketSize& bucket, const ImageBucketsOptions& options) {
  const TensorSpec made =
      transform_into(bucket, bucket, options).output(bucket.width, bucket.height);
  const TensorSpec wanted =
      output_spec(options.image.format, bucket.width, bucket.height, options.image.channels);
  if (made != wanted) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("more_steps must keep the shape of images: they produce ({}) in bucket {}, "
                    "expected ({})",
                    fmt::join(made.shape, ", "), name_of(bucket), fmt::join(wanted.shape, ", ")));
  }
}

BucketSize size_of_encoded(ByteView encoded, const ImageBucketsOptions& options) {
  const auto [width, height] =
      decoded_size(probe_image(encoded, options.limits), options.apply_orientation);
  return {.width = width, .height = height};
}

BucketSize size_of_tensor(const Tensor& tensor, bool has_channels_first) {
  const std::size_t dimensions = tensor.shape.size();
  if (dimensions != 2 && dimensions != 3) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("expected an image tensor with 2 or 3 dimensions, found {}",
                            describe(Value(tensor))));
  }
  const std::size_t height = dimensions == 3 && has_channels_first ? 1 : 0;
  return {.width = tensor.shape[height + 1], .height = tensor.shape[height]};
}

bool is_text(const Value& value) { return std::holds_alternative<std::string>(value.base()); }

// Runs `function` and adds the name of the field to its errors.
template <class Function>
auto of_field(const std::string& field, const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("field '{}': {}", printable(field), error.message()),
                error.context());
  }
}

}  // namespace

ImageBuckets::ImageBuckets(ImageBucketsOptions options) : options_(std::move(options)) {
  if (options_.sizes.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "buckets of images need at least one size");
  }
  for (auto size = options_.sizes.begin(); size != options_.sizes.end(); ++size) {
    check_image_size("the bucket", size->width, size->height);
    if (std::find(options_.sizes.begin(), size, *size) != size) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("bucket {} comes twice", name_of(*size)));
    }
    check_steps(*size, options_);
  }
}

std::size_t ImageBuckets::nearest(std::int64_t width, std::int64_t height) const {
  check_image_size("the image", width, height);
  const BucketSize image{.width = width, .height = height};
  const auto best =
      std::ranges::min_element(options_.sizes, {}, [&image](const BucketSize& bucket) {
        return std::tuple(bucket != image, rank_of(image, bucket));
      });
  return static_cast<std::size_t>(best - options_.sizes.begin());
}

std::optional<std::size_t> ImageBuckets::bucket_of(const Value& image) const {
  if (const auto* const bytes = std::get_if<SharedBytes>(&image.base())) {
    const BucketSize size = size_of_encoded(bytes->view, options_);
    return nearest(size.width, size.height);
  }
  if (const auto* const tensor = std::get_if<Tensor>(&image.base())) {
    const BucketSize size = size_of_tensor(*tensor, options_.image.format.channels_first);
    return nearest(size.width, size.height);
  }
  if (const auto* const list = std::get_if<List>(&image.base())) {
    const auto first = std::ranges::find_if_not(*list, is_text);
    return first == list->end() ? std::nullopt : bucket_of(*first);
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("expected an image as bytes or a tensor, found {}", describe(image)));
}

Tensor ImageBuckets::decode(ByteView encoded, std::size_t bucket, CallRng& rng,
                            BufferAllocator& memory) const {
  if (bucket >= options_.sizes.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("bucket {} is out of range: there are {} buckets", bucket,
                            options_.sizes.size()));
  }
  ImageTransform transform =
      transform_into(size_of_encoded(encoded, options_), options_.sizes[bucket], options_);
  return decode_transformed(
      encoded, transform, rng, memory,
      {.apply_orientation = options_.apply_orientation, .limits = options_.limits});
}

Value ImageBuckets::fitted(const Value& value, std::size_t bucket, CallContext& context) const {
  if (const auto* const bytes = std::get_if<SharedBytes>(&value.base())) {
    return decode(bytes->view, bucket, context.rng(), context.memory());
  }
  if (const auto* const list = std::get_if<List>(&value.base())) {
    List result;
    result.reserve(list->size());
    for (const Value& item : *list) {
      result.push_back(is_text(item) ? item : fitted(item, bucket, context));
    }
    return result;
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("only encoded images can be fitted into a bucket, found {}; leave images "
                  "as bytes (SampleDecoderOptions::image = \"\"; in Python image_decode=None)",
                  describe(value)));
}

MapFunction ImageBuckets::fit(std::string field) const {
  return [buckets = *this, field = std::move(field)](Sample sample, CallContext& context) {
    const Value& image = sample.at(field);
    Value fitted = of_field(field, [&] {
      const std::optional<std::size_t> bucket = buckets.bucket_of(image);
      return bucket ? buckets.fitted(image, *bucket, context) : image;
    });
    sample.set(field, std::move(fitted));
    return sample;
  };
}

GroupFunction ImageBuckets::group_by(std::string field) const {
  return [buckets = *this, field = std::move(field)](const Sample& sample) -> BatchGroup {
    const Value& image = sample.at(field);
    const std::optional<std::size_t> bucket =
        of_field(field, [&] { return buckets.bucket_of(image); });
    return {.group = bucket ? name_of(buckets.sizes()[*bucket]) : "no image"};
  };
}

}  // namespace energon
