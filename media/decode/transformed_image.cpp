#include "media/decode/transformed_image.h"

#include <utility>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "media/image/image_decoder.h"

namespace energon {
namespace {

ImageChannels channels_of(int count) {
  switch (count) {
    case 1:
      return ImageChannels::kGray;
    case 3:
      return ImageChannels::kRgb;
    case 4:
      return ImageChannels::kRgba;
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("images are decoded with 1, 3 or 4 channels, the transform is for {}",
                              count));
  }
}

}  // namespace

Tensor decode_transformed(ByteView encoded, ImageTransform& transform, CallRng& rng,
                          BufferAllocator& memory, const TransformedImageOptions& options) {
  const ImageChannels channels = channels_of(transform.channels());
  EncodedImage image(encoded, options.limits);
  const auto [width, height] = decoded_size(image.info(), options.apply_orientation);
  const ImagePlan plan = transform.plan(width, height, rng);
  // Not in `memory`, where the tensors of a batch lie side by side.
  const DecodedRegion region = image.decode(
      {.crop = plan.box, .least_width = plan.least_width, .least_height = plan.least_height},
      channels, options.apply_orientation, heap_memory());
  TensorSpec spec = transform.output(plan);
  NewTensor result = new_tensor(spec.dtype, std::move(spec.shape), memory);
  transform.run_planned(
      plan, image_view(region.pixels.bytes, region.width, region.height, region.channels),
      region.box, result.bytes);
  return std::move(result.tensor);
}

}  // namespace energon
