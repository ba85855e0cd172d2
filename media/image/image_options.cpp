#include "media/image/image_options.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace energon {
namespace {

constexpr std::array<std::string_view, 17> kModeNames = {
    "l8",        "rgb8",      "rgba8",      "l",      "rgb",      "rgba",
    "torchl8",   "torchrgb8", "torchrgba8", "torchl", "torchrgb", "torch",
    "torchrgba", "pill",      "pil",        "pilrgb", "pilrgba"};

// Removes `word` from the begin or the end of `text` and says whether it was there.
bool take_prefix(std::string_view& text, std::string_view word) {
  const bool found = text.starts_with(word);
  text.remove_prefix(found ? word.size() : 0);
  return found;
}

bool take_suffix(std::string_view& text, std::string_view word) {
  const bool found = text.ends_with(word);
  text.remove_suffix(found ? word.size() : 0);
  return found;
}

}  // namespace

std::optional<ImageOptions> image_options_of_mode(std::string_view mode) {
  if (std::find(kModeNames.begin(), kModeNames.end(), mode) == kModeNames.end()) {
    return std::nullopt;
  }
  const bool torch = take_prefix(mode, "torch");
  const bool pil = !torch && take_prefix(mode, "pil");
  const bool eight_bit = take_suffix(mode, "8") || pil;
  ImageOptions options;
  options.layout = torch ? PixelLayout::kChannelsFirst : PixelLayout::kChannelsLast;
  options.dtype = eight_bit ? DType::kUInt8 : DType::kFloat32;
  if (mode == "l") {
    options.channels = ImageChannels::kGray;
  } else if (mode == "rgba") {
    options.channels = ImageChannels::kRgba;
  } else if (mode.empty() && pil) {
    options.channels = ImageChannels::kAsStored;
  }
  return options;
}

std::span<const std::string_view> image_mode_names() { return kModeNames; }

}  // namespace energon
