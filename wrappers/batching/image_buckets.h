// Batches images of many shapes so that each batch has one shape: each image is assigned to the
// bucket, one of several fixed sizes, whose shape is nearest.
//
//   const ImageBuckets buckets({.sizes = {{512, 512}, {384, 640}, {640, 384}}});
//   encoder.encode_sample = buckets.fit("jpg");             // resizes and crops
//   encoder.batch_group_criterion = buckets.group_by("jpg");  // a batch has one bucket
//   encoder.batch = generic_batch;                          // stacks

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/transform/image_transform.h"
#include "wrappers/batching/group_batch.h"
#include "wrappers/stages/map.h"

namespace energon {

/// In pixels.
struct BucketSize {
  std::int64_t width = 0;
  std::int64_t height = 0;

  bool operator==(const BucketSize&) const = default;
};

/// Which part to keep of an image that was resized to cover its bucket.
enum class BucketCrop : std::uint8_t {
  kCenter,
  kRandom,  ///< draws from the sample's generator
};

struct ImageBucketsOptions {
  std::vector<BucketSize> sizes = {};
  BucketCrop crop = BucketCrop::kCenter;
  /// Options of the tensors.
  ImageTransformOptions image = {};
  /// Steps after the crop, such as RandomHorizontalFlip and ColorJitter. Must not change the size.
  std::vector<ImageStep> more_steps = {};
  /// Applies the EXIF orientation of encoded images. The orientation of TIFFs is always applied.
  bool apply_orientation = false;
  DecodeLimits limits = {};
};

/// Immutable; thread-safe.
class ImageBuckets {
 public:
  /// Throws Error (kInvalidArgument) for no sizes, a duplicate size, or an impossible one; and like
  /// ImageTransform.
  explicit ImageBuckets(ImageBucketsOptions options);

  const std::vector<BucketSize>& sizes() const { return options_.sizes; }

  /// The bucket of an image of this size: the one whose ratio of width to height is nearest, by
  /// the factor between the two. Ties go to the largest bucket that the image covers without
  /// enlargement, else to the smallest; among equally large buckets, to the first. An image with
  /// exactly the size of a bucket belongs to it. Throws Error (kInvalidArgument) unless both are in
  /// [1, kMaxImageSide].
  std::size_t nearest(std::int64_t width, std::int64_t height) const;

  /// The bucket of an encoded image, by its header, or of a tensor in the layout of the options
  /// (image.format.channels_first; two dimensions are gray). A list belongs to the bucket of its
  /// first image, so that all images of a sample have one size; nullopt if it has no image. Ignores
  /// strings in a list. Throws Error: as probe_image(); kInvalidArgument for other values.
  std::optional<std::size_t> bucket_of(const Value& image) const;

  /// The tensor of an encoded image in this bucket: resized so that it covers the bucket with one
  /// side equal, then cropped; decodes only the needed pixels. The tensor is stored in `memory`.
  /// Throws Error like decode_transformed(), and kInvalidArgument if the bucket does not exist.
  Tensor decode(ByteView encoded, std::size_t bucket, CallRng& rng, BufferAllocator& memory) const;

  /// For TaskEncoder::encode_sample: replaces the encoded image in `field` by its tensor, in its
  /// bucket, and those in a list by tensors in the bucket of the first one. Keeps strings in a
  /// list. The function throws Error that names the field: as above; kNotFound if the field is
  /// missing.
  MapFunction fit(std::string field) const;

  /// For TaskEncoder::batch_group_criterion, after fit() or before images are decoded: the group of
  /// a sample is its bucket, called "512x384" (width and height), or "no image". The function
  /// throws Error as fit().
  GroupFunction group_by(std::string field) const;

 private:
  Value fitted(const Value& value, std::size_t bucket, CallContext& context) const;

  ImageBucketsOptions options_;
};

}  // namespace energon
