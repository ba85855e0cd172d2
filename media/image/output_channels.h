// How many channels ImageChannels means. Internal to media/image.

#pragma once

#include "media/image/image_options.h"

namespace energon {

/// Channels of the result for an image that has `stored` ones.
constexpr int output_channels(ImageChannels wanted, int stored) {
  switch (wanted) {
    case ImageChannels::kGray:
      return 1;
    case ImageChannels::kRgb:
      return 3;
    case ImageChannels::kRgba:
      return 4;
    case ImageChannels::kAsStored:
      break;
  }
  return stored;
}

}  // namespace energon
