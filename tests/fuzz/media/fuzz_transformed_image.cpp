// Images of any format through transforms, from the encoded bytes to the tensor.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "media/image/image_decoder.h"
#include "media/transform/image_transform.h"
#include "tests/fuzz/media/checked_value.h"
#include "tests/fuzz/media/checksums.h"
#include "tests/fuzz/media/choices.h"
#include "tests/fuzz/media/exact_memory.h"

namespace energon::fuzz {
namespace {

// `size` starts at 0: impossible sizes are Errors.
ImageStep geometric_step(std::size_t kind, std::int64_t size) {
  switch (kind) {
    case 0:
      return ResizeTo{size, 2 * size};
    case 1:
      return ResizeShortest{size, 3 * size};
    case 2:
      return ResizeLongest{size};
    case 3:
      return CenterCrop{size, 9};
    case 4:
      return RandomCrop{7, size};
    case 5:
      return RandomResizedCrop{size, 5};
    case 6:
      return RandomHorizontalFlip{};
    case 7:
      return RandomVerticalFlip{};
    case 8:
      return RandomRotation{{-5.0 * static_cast<double>(size), 90}};
    case 9:
      return PadToSquare{};
    default:
      return Padding{size, 1, 0, size};
  }
}

std::vector<ImageStep> steps_of(Choices& choices) {
  constexpr std::size_t kKinds = 11;
  std::vector<ImageStep> steps;
  for (int i = 0; i < 3; ++i) {
    if (const std::size_t byte = choices.byte(); byte != 0) {
      steps.push_back(geometric_step(byte % kKinds, static_cast<std::int64_t>(byte / kKinds)));
    }
  }
  const std::size_t colors = choices.below(4);
  if ((colors & 1) != 0) {
    steps.push_back(ColorJitter{0.4, 0.4, 0.4, 0.2});
  }
  if ((colors & 2) != 0) {
    steps.push_back(RandomGray{0.5});
  }
  return steps;
}

ImageTransformOptions options_of(Choices& choices) {
  constexpr std::array kTypes = {DType::kUInt8, DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  constexpr std::array kChannels = {3, 1, 4};
  ImageTransformOptions options;
  const std::size_t form = choices.byte();
  options.format.dtype = kTypes[form % 4];
  options.format.channels_first = (form & 4) != 0;
  options.antialias = (form & 8) == 0;
  options.channels = kChannels[form / 16 % 3];
  options.filter = static_cast<ResizeFilter>(form / 64 % 2);
  options.decode_margin = (form & 128) != 0 ? 2 : 1;
  return options;
}

void check_transformed(ByteView image, Choices& choices) {
  const bool apply_orientation = choices.yes();
  CallRng rng(static_cast<std::uint32_t>(choices.byte()));
  const ImageTransformOptions options = options_of(choices);
  ImageTransform transform(steps_of(choices), options);
  ExactMemory memory;
  const Tensor tensor =
      decode_transformed(image, transform, rng, memory,
                         {.apply_orientation = apply_orientation, .limits = kFuzzLimits});
  check_tensor(tensor);
  const ImageInfo info = probe_image(image, kFuzzLimits);
  const ImageSize size = decoded_size(info, apply_orientation);
  require(tensor.shape == transform.output(size.width, size.height).shape);
  if (tensor.dtype == DType::kFloat32) {
    for (std::size_t at = 0; at < tensor.data.view.size(); at += sizeof(float)) {
      float level = 0;
      std::memcpy(&level, tensor.data.view.data() + at, sizeof level);
      require(level >= 0 && level <= 1);
    }
  }
}

}  // namespace
}  // namespace energon::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  fuzz::Choices choices(data, size);
  std::string image(as_text(choices.rest()));
  if (image_format_of(choices.rest()) == ImageFormat::kPng) {
    fuzz::mend_png(image);
  }
  return fuzz::try_to_read([&] { fuzz::check_transformed(as_bytes(image), choices); });
}
