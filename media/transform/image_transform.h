// From images to the tensors of training samples: geometry, colors, numeric format.
//
// decode_transformed() decodes and transforms an encoded image. ImageTransform::run() transforms a
// decoded one. To decode with another library, draw a plan first and decode only what it needs:
//
//   ImagePlan plan = transform.plan(width, height, rng);
//   // decode plan.box, to at least plan.least_width * plan.least_height pixels
//   transform.run_planned(plan, view, box_in_the_view, tensor);
//
// Consecutive geometric steps are merged into one resampling.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/image/image_decoder.h"
#include "media/tensor_decoder.h"
#include "media/transform/image_layout.h"

namespace energon {

// --- Decoded pixels ---
//
// Coordinates are continuous: pixel (i, j) covers [i, i + 1) x [j, j + 1), its center is
// (i + 0.5, j + 0.5). x increases to the right, y downwards. Pillow and torch (align_corners=False)
// use the same convention.

/// The longest side of an image that transforms accept.
inline constexpr std::int64_t kMaxImageSide = std::int64_t{1} << 24;
inline constexpr int kMaxImageChannels = 4;

/// Borrowed pixels: rows of interleaved channels (height, width, channels), uint8 or float32. All
/// bytes from the first row to the end of the last one must be readable, including those between
/// rows.
struct ImageView {
  const std::byte* data = nullptr;  ///< the first row, aligned for the dtype
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 3;            ///< 1 to 4
  std::int64_t row_bytes = 0;  ///< from one row to the next; at least the bytes of its pixels
  DType dtype = DType::kUInt8;

  std::int64_t pixel_bytes() const;
  const std::byte* row(std::int64_t y) const { return data + y * row_bytes; }
};

/// Views the pixels of a contiguous image. Throws Error (kInvalidArgument) if `pixels` has another
/// size than such an image, or transforms do not accept it.
ImageView image_view(ByteView pixels, std::int64_t width, std::int64_t height, int channels,
                     DType dtype = DType::kUInt8);

// --- Steps ---

struct ResizeTo {
  std::int64_t width = 0;
  std::int64_t height = 0;
};

/// Resizes the shorter side to `size` pixels, or fewer if the longer side would exceed `longest`.
/// Fractions of a pixel of the longer side are dropped, as in torchvision.
struct ResizeShortest {
  std::int64_t size = 0;
  std::optional<std::int64_t> longest = std::nullopt;
};

/// Resizes the longer side to `size` pixels. Fractions of a pixel of the shorter side are dropped.
struct ResizeLongest {
  std::int64_t size = 0;
};

/// Crops in the middle, at the place of torchvision's center_crop. Smaller images get a border.
struct CenterCrop {
  std::int64_t width = 0;
  std::int64_t height = 0;
};

/// Crops at a random place. Smaller images get a border first, half of it on each side. Draws one
/// integer() for the top and one for the left, even if there is only one place.
struct RandomCrop {
  std::int64_t width = 0;
  std::int64_t height = 0;
};

/// Lower and upper bound; they may be equal.
struct RandomRange {
  double low = 0;
  double high = 0;
};

/// Crops a random box with `scale` of the area (0 < scale) and `ratio` of width to height (0 <
/// ratio), and resizes it. Draws up to 10 times: one uniform() for the area, one for the logarithm
/// of the ratio; then, for the first box that fits, one integer() for the top and one for the left.
/// If none fits, takes the largest box of an allowed ratio in the middle.
struct RandomResizedCrop {
  std::int64_t width = 0;
  std::int64_t height = 0;
  RandomRange scale = {0.08, 1.0};
  RandomRange ratio = {3.0 / 4, 4.0 / 3};
};

/// Flips with probability `p`. Draws one uniform().
struct RandomHorizontalFlip {
  double p = 0.5;
};

/// Flips with probability `p`. Draws one uniform().
struct RandomVerticalFlip {
  double p = 0.5;
};

/// Rotates counter-clockwise around the middle; the size stays. Draws one uniform().
struct RandomRotation {
  RandomRange degrees = {0, 0};
};

/// Adds a border that makes the image square, half of it on each side.
struct PadToSquare {};

/// Adds a border: pixels on each side, at least 0.
struct Padding {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t right = 0;
  std::int64_t bottom = 0;
};

/// Changes colors at random, as torchvision's ColorJitter; each value is at least 0. The factors of
/// brightness, contrast and saturation are in [max(0, 1 - x), 1 + x]; the hue is rotated by a
/// fraction of the circle in [-x, x], with x <= 0.5. 0 means no change. Draws three integer() for
/// the order of the changes, then one uniform() for each: brightness, contrast, saturation, hue.
struct ColorJitter {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;
};

/// Makes the image gray with probability `p`; three channels become equal. Draws one uniform().
struct RandomGray {
  double p = 0.1;
};

using ImageStep = std::variant<ResizeTo, ResizeShortest, ResizeLongest, CenterCrop, RandomCrop,
                               RandomResizedCrop, RandomHorizontalFlip, RandomVerticalFlip,
                               RandomRotation, PadToSquare, Padding, ColorJitter, RandomGray>;

// --- Options ---

enum class ResizeFilter : std::uint8_t {
  kNearest,   ///< the pixel that covers the center; in torch: nearest-exact
  kBox,       ///< mean of the covered pixels; without antialiasing: kNearest
  kBilinear,  ///< support of 1 pixel
  /// Support of 2 pixels. a = -0.5 with antialiasing, a = -0.75 without, as in torch.
  kBicubic,
};

/// The color of pixels outside the source, per channel: levels of 0 to 255 for uint8 (rounded),
/// values for float32.
using FillColor = std::array<double, kMaxImageChannels>;

/// The numeric format of the tensor. Levels 0 to 255 become (level / 255 - mean) / stddev, per
/// channel. uint8 tensors contain the levels, without mean and stddev.
struct OutputFormat {
  DType dtype = DType::kFloat32;  ///< kUInt8, kFloat16, kBFloat16 or kFloat32
  bool channels_first = true;     ///< (channels, height, width), else (height, width, channels)
  std::array<double, kMaxImageChannels> mean = {0, 0, 0, 0};    ///< 0 is black, 1 is white
  std::array<double, kMaxImageChannels> stddev = {1, 1, 1, 1};  ///< in the same unit
};

struct ImageTransformOptions {
  OutputFormat format = {};
  int channels = 3;  ///< of the decoded images; color steps need 1 or 3
  ResizeFilter filter = ResizeFilter::kBilinear;
  bool antialias = true;
  FillColor fill = {};  ///< of borders and corners
  /// Images are decoded at least this many times larger than the result, if the decoder can shrink
  /// them. 1 is the fastest. 2 and more are closer to shrinking in one step, as Pillow's
  /// reducing_gap. With infinity, images are decoded in their own size.
  double decode_margin = 1;
  /// What the tensor contains after the steps. Patches and tiles need channels first.
  ImageLayout layout = WholeLayout{};
};

// --- The transform ---

struct DrawnSteps;  // in image_transform.cpp
class AffineSteps;

/// The steps with the random numbers drawn for one image.
struct ImagePlan {
  PixelBox box;                  ///< the needed pixels of the source, at least one
  std::int64_t least_width = 0;  ///< how small `box` may be decoded
  std::int64_t least_height = 0;
  ImageGrid grid = {};                                ///< of the patches or tiles
  std::shared_ptr<const DrawnSteps> steps = nullptr;  ///< for ImageTransform
};

/// Copies are independent. Not thread-safe because it reuses memory: use one copy per thread.
class ImageTransform {
 public:
  /// Throws Error (kInvalidArgument) for invalid options and steps, and for a geometric step after
  /// a color step.
  explicit ImageTransform(std::vector<ImageStep> steps, ImageTransformOptions options = {});
  ImageTransform(const ImageTransform& other);
  /// A moved-from object may only be assigned to or destroyed.
  ImageTransform(ImageTransform&&) noexcept;
  ImageTransform& operator=(const ImageTransform& other);
  ImageTransform& operator=(ImageTransform&&) noexcept;
  ~ImageTransform();

  /// Channels of the images that the transform accepts.
  int channels() const { return options_.channels; }
  /// Whether the layout is a PatchLayout.
  bool has_patches() const { return std::holds_alternative<PatchLayout>(options_.layout); }
  /// Whether plan() draws random numbers.
  bool is_random() const;

  /// The tensor for a source of this size. Throws Error (kInvalidArgument).
  TensorSpec output(std::int64_t width, std::int64_t height) const;
  /// The tensor for a plan.
  TensorSpec output(const ImagePlan& plan) const;

  /// Draws from `rng` the numbers that the steps need, in the order of the steps. Throws Error
  /// (kInvalidArgument).
  ImagePlan plan(std::int64_t width, std::int64_t height, CallRng& rng) const;

  /// Transforms a whole uint8 image into `to`, which must have exactly the bytes of the tensor.
  /// Throws Error (kInvalidArgument).
  void run(const ImageView& image, CallRng& rng, std::span<std::byte> to);

  /// As run(), with a plan. `image` shows the source or a part of it, in its size or scaled;
  /// plan.box is at `place` in it, which must be inside the image. In the size of the source, the
  /// result equals that of run().
  void run_planned(const ImagePlan& plan, const ImageView& image, const FractionalBox& place,
                   std::span<std::byte> to);

 private:
  struct Work;  // the numeric conversion, and memory for reuse

  void draw(const ImagePlan& plan, const AffineSteps& geometry, const ImageView& image,
            const FractionalBox& place, std::span<std::byte> to);
  ImageView draw_levels(const ImagePlan& plan, const AffineSteps& geometry, const ImageView& image,
                        const FractionalBox& place);

  std::vector<ImageStep> steps_;
  ImageTransformOptions options_;
  std::unique_ptr<Work> work_;
};

// --- Encoded images ---

struct TransformedImageOptions {
  /// Applies the EXIF orientation. The orientation of TIFFs is always applied.
  bool apply_orientation = false;
  DecodeLimits limits = {};
};

/// Draws a plan for the image, decodes only the needed pixels, no larger than needed if the format
/// can be scaled while it is decoded (EncodedImage::decode()), and transforms them into new memory
/// of `memory`. The transform must be for 1, 3 or 4 channels. Throws Error as EncodedImage and
/// ImageTransform.
Tensor decode_transformed(ByteView encoded, ImageTransform& transform, CallRng& rng,
                          BufferAllocator& memory, const TransformedImageOptions& options = {});

/// The same as the value of a field: the tensor or, for a PatchLayout, a Mapping as the result of
/// Hugging Face's processors for one image: {"pixel_values": the patches, "image_grid_thw": int64
/// (1, 3), which are 1, the rows and the columns of patches}.
Value decode_transformed_value(ByteView encoded, ImageTransform& transform, CallRng& rng,
                               BufferAllocator& memory,
                               const TransformedImageOptions& options = {});

}  // namespace energon
