#include "media/av/audio_samples.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

extern "C" {
#include <libavutil/frame.h>
#include <libavutil/samplefmt.h>
}

namespace energon {
namespace {

DType sample_dtype(AVSampleFormat format) {
  switch (av_get_packed_sample_fmt(format)) {
    case AV_SAMPLE_FMT_U8:
      return DType::kUInt8;
    case AV_SAMPLE_FMT_S16:
      return DType::kInt16;
    case AV_SAMPLE_FMT_S32:
      return DType::kInt32;
    case AV_SAMPLE_FMT_S64:
      return DType::kInt64;
    case AV_SAMPLE_FMT_FLT:
      return DType::kFloat32;
    case AV_SAMPLE_FMT_DBL:
      return DType::kFloat64;
    default:
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("sound in sample format {} has no dtype", static_cast<int>(format)));
  }
}

// Samples [begin, end) of one of `step` interleaved channels.
void append_interleaved(const std::uint8_t* from, std::size_t element, std::size_t step,
                        std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(to + i * element, from + i * element * step, element);
  }
}

}  // namespace

std::int64_t AudioSamples::size() const {
  return channels.empty() ? 0 : static_cast<std::int64_t>(channels.front().size() / size_of(dtype));
}

void AudioSamples::append(const AVFrame& frame, std::int64_t begin, std::int64_t end,
                          const DecodeLimits& limits) {
  const auto format = static_cast<AVSampleFormat>(frame.format);
  const DType frame_dtype = sample_dtype(format);
  const auto frame_channels = static_cast<std::size_t>(std::max(frame.ch_layout.nb_channels, 0));
  if (channels.empty()) {
    dtype = frame_dtype;
    sample_rate = frame.sample_rate;
    channels.resize(frame_channels);
  }
  if (channels.size() != frame_channels || dtype != frame_dtype ||
      sample_rate != frame.sample_rate) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("the sound changes from {} channels of {} at {} Hz to {} channels of {} "
                    "at {} Hz after sample {}",
                    channels.size(), to_string(dtype), sample_rate, frame_channels,
                    to_string(frame_dtype), frame.sample_rate, first + size()));
  }
  const std::size_t element = size_of(dtype);
  const auto count = static_cast<std::size_t>(end - begin);
  const bool is_planar = av_sample_fmt_is_planar(format) != 0;
  const std::size_t old_bytes = channels.empty() ? 0 : channels.front().size();
  check_decoded_bytes("the sound", (old_bytes + count * element) * frame_channels, limits);
  for (std::size_t i = 0; i < frame_channels; ++i) {
    const std::size_t step = is_planar ? 1 : frame_channels;
    const std::uint8_t* plane = is_planar ? frame.extended_data[i] : frame.extended_data[0];
    const std::uint8_t* from =
        plane + (static_cast<std::size_t>(begin) * step + (is_planar ? 0 : i)) * element;
    channels[i].resize(old_bytes + count * element);
    std::byte* to = channels[i].data() + old_bytes;
    if (step == 1) {
      std::memcpy(to, from, count * element);
    } else {
      append_interleaved(from, element, step, count, to);
    }
  }
}

Tensor AudioSamples::tensor(BufferAllocator& memory) const {
  NewTensor result =
      new_tensor(dtype, {static_cast<std::int64_t>(channels.size()), size()}, memory);
  std::byte* to = result.bytes.data();
  for (const std::vector<std::byte>& channel : channels) {
    if (!channel.empty()) {
      std::memcpy(to, channel.data(), channel.size());
      to += channel.size();
    }
  }
  return std::move(result.tensor);
}

}  // namespace energon
