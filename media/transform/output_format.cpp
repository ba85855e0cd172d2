#include "media/transform/output_format.h"

#include <cmath>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr double kLargestMean = 1e6;
constexpr double kLeastDeviation = 1e-6;

void check_channel(const OutputFormat& format, std::size_t channel) {
  const double mean = format.mean[channel];
  const double stddev = format.stddev[channel];
  if (!(std::abs(mean) <= kLargestMean) || !(stddev >= kLeastDeviation) ||
      !(stddev <= kLargestMean)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("channel {} has a mean of {} and a stddev of {}: give those of values "
                            "from 0 to 1, a stddev of at least {}",
                            channel, mean, stddev, kLeastDeviation));
  }
  if (format.dtype == DType::kUInt8 && (mean != 0 || stddev != 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("channel {} has a mean of {} and a stddev of {}, but uint8 holds the "
                            "levels as they are: leave both out, or take a floating dtype",
                            channel, mean, stddev));
  }
}

}  // namespace

void validate(const OutputFormat& format, int channels) {
  if (format.dtype != DType::kUInt8 && format.dtype != DType::kFloat16 &&
      format.dtype != DType::kBFloat16 && format.dtype != DType::kFloat32) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("pixels as {}: they can be uint8, float16, bfloat16 or float32",
                            to_string(format.dtype)));
  }
  if (channels < 1 || channels > kMaxImageChannels) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("an image of {} channels: must be 1 to {}",
                                                         channels, kMaxImageChannels));
  }
  for (int channel = 0; channel < channels; ++channel) {
    check_channel(format, static_cast<std::size_t>(channel));
  }
}

TensorSpec output_spec(const OutputFormat& format, std::int64_t width, std::int64_t height,
                       int channels) {
  validate(format, channels);
  check_image_size("the result", width, height);
  TensorSpec spec{.dtype = format.dtype, .shape = {height, width, channels}};
  if (format.channels_first) {
    spec.shape = {channels, height, width};
  }
  return spec;
}

}  // namespace energon
