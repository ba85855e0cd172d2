// The form of the tensor that pixels become.

#pragma once

#include <array>
#include <cstdint>

#include "media/tensor_decoder.h"
#include "media/transform/pixels.h"

namespace energon {

/// Levels 0 to 255 become (level / 255 - mean) / stddev, per channel. uint8 tensors hold the levels
/// and take neither mean nor stddev.
struct OutputFormat {
  DType dtype = DType::kFloat32;  ///< kUInt8, kFloat16, kBFloat16 or kFloat32
  bool channels_first = true;     ///< (channels, height, width), else (height, width, channels)
  std::array<double, kMaxImageChannels> mean = {0, 0, 0, 0};    ///< 0 to 1 are black to white
  std::array<double, kMaxImageChannels> stddev = {1, 1, 1, 1};  ///< in the same unit
};

/// The tensor of an image. Throws Error (kInvalidArgument): a size, a number of channels, a dtype,
/// a mean or a stddev that cannot be.
TensorSpec output_spec(const OutputFormat& format, std::int64_t width, std::int64_t height,
                       int channels);

/// Throws Error (kInvalidArgument) as output_spec().
void validate(const OutputFormat& format, int channels);

}  // namespace energon
