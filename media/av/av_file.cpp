#include "media/av/av_file.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

AvDecoder::File::File(ByteView file, const AvDecoderOptions& options)
    : options_(options), input_(file, options.limits) {}

AvPackets& AvDecoder::File::packets() {
  if (packets_error_) {
    throw *packets_error_;
  }
  if (!packets_) {
    try {
      packets_ = read_av_packets(input_);
    } catch (const Error& error) {
      packets_error_ = error;
      throw;
    }
  }
  return *packets_;
}

const VideoOrder& AvDecoder::File::order() {
  if (input_.video() == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "the file has no video");
  }
  if (!order_) {
    order_ = video_order(input_, packets().video, options_.limits);
  }
  return *order_;
}

VideoReader& AvDecoder::File::video() {
  if (!video_) {
    const VideoOrder& order = this->order();
    video_.emplace(input_, packets_->video, order, options_.limits);
  }
  return *video_;
}

AudioReader& AvDecoder::File::audio() {
  if (input_.audio() == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "the file has no sound");
  }
  if (!audio_) {
    audio_.emplace(input_, packets().audio, options_.audio_access, options_.limits);
  }
  return *audio_;
}

FrameSize AvDecoder::File::size_of_frame(std::int64_t number, std::optional<FrameSize> size) {
  if (!size) {
    const AVFrame& frame = video().frame(number);
    size = FrameSize{.width = frame.width, .height = frame.height};
  }
  if (size->width <= 0 || size->height <= 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("frames cannot have {} x {} pixels", size->width, size->height));
  }
  check_pixels("a frame of the clip", static_cast<std::uint64_t>(size->width),
               static_cast<std::uint64_t>(size->height), options_.limits);
  return *size;
}

TensorSpec AvDecoder::File::spec_of(std::span<const std::int64_t> numbers,
                                    std::optional<FrameSize> size) {
  if (numbers.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "a clip without frames was asked for");
  }
  const FrameSize frame = size_of_frame(numbers.front(), size);
  const auto count = static_cast<std::int64_t>(numbers.size());
  TensorSpec spec = {DType::kUInt8, {count, 3, frame.height, frame.width}};
  check_decoded_bytes("the clip", tensor_bytes(spec.dtype, spec.shape), options_.limits);
  return spec;
}

void AvDecoder::File::write_frames(std::span<const std::int64_t> numbers,
                                   std::optional<FrameSize> size, std::span<std::byte> to) {
  const FrameSize clip_size = size_of_frame(numbers.front(), size);
  const std::size_t frame_bytes = to.size() / numbers.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const AVFrame& frame = video().frame(numbers[i]);
    if (!size && FrameSize{frame.width, frame.height} != clip_size) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("frame {} has {} x {} pixels, frame {} of the same clip has {} x {}: "
                              "ask for a size",
                              numbers[i], frame.width, frame.height, numbers.front(),
                              clip_size.width, clip_size.height));
    }
    planes_.write(frame, clip_size, options_.limits, to.subspan(i * frame_bytes, frame_bytes));
  }
}

VideoClip AvDecoder::File::times_of(std::span<const std::int64_t> numbers) {
  const VideoOrder& order = this->order();
  VideoClip clip;
  clip.times_seconds.reserve(numbers.size());
  for (const std::int64_t number : numbers) {
    clip.times_seconds.push_back(order.times_seconds[static_cast<std::size_t>(number)]);
  }
  clip.begin_seconds = clip.times_seconds.front();
  clip.end_seconds = order.end_of_frame(numbers.back());
  return clip;
}

VideoClip AvDecoder::File::decode_frames(std::span<const std::int64_t> numbers,
                                         std::optional<FrameSize> size, BufferAllocator& memory) {
  TensorSpec spec = spec_of(numbers, size);
  NewTensor result = new_tensor(spec.dtype, std::move(spec.shape), memory);
  write_frames(numbers, size, result.bytes);
  VideoClip clip = times_of(numbers);
  clip.frames = std::move(result.tensor);
  return clip;
}

std::optional<AudioClip> AvDecoder::File::decode_samples(const ClipSpan& span,
                                                         BufferAllocator& memory) {
  AudioReader& reader = audio();
  const double start = reader.start_seconds();
  const AudioSamples samples = reader.read(span.first, span.first + span.count);
  if (samples.size() == 0) {
    return std::nullopt;
  }
  AudioClip clip;
  clip.samples = samples.tensor(memory);
  clip.sample_rate = samples.sample_rate;
  const double rate = std::max(samples.sample_rate, 1);
  clip.begin_seconds = start + static_cast<double>(span.first) / rate;
  clip.end_seconds = start + static_cast<double>(span.first + samples.size()) / rate;
  return clip;
}

std::vector<std::int64_t> frame_numbers(const ClipSpan& span) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(span.count));
  std::iota(numbers.begin(), numbers.end(), span.first);
  return numbers;
}

}  // namespace energon
