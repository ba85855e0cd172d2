#include "python/src/decoders.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "energon/stage/call_context.h"
#include "io/concurrency.h"
#include "io/error.h"
#include "media/av/av_decoder.h"
#include "media/image/image_decoder.h"
#include "media/transform/image_transform.h"
#include "media/transform/sound_transform.h"
#include "python/src/buffer_object.h"
#include "python/src/interpreter.h"
#include "python/src/module.h"
#include "python/src/python_names.h"
#include "python/src/value_to_python.h"

namespace nb = nanobind;

namespace energon::python {

// --- PartDecoder ---

nb::object PartDecoder::decode(std::string_view name, const SharedBytes& part,
                               BufferAllocator& memory) const {
  static constinit PackageAttribute draw_seed("_random", "draw_seed");
  std::optional<CallRng> rng;
  if (decoder_.is_random()) {
    rng.emplace(nb::cast<std::uint32_t>(draw_seed()));
  }
  const Value value = [&] {
    const ReleaseGil released;
    return decoder_.decode_part(name, part, memory, rng ? &*rng : nullptr);
  }();
  return to_python(value, tensors_);
}

namespace {

// A transform of energon_cpp.transforms: its name and its numbers.
using NamedStep = std::pair<std::string, std::vector<double>>;

ImageStep step_of(const NamedStep& step) {
  const auto& [name, numbers] = step;
  const auto real = [&numbers = numbers](std::size_t i) { return numbers.at(i); };
  const auto whole = [&](std::size_t i) { return static_cast<std::int64_t>(real(i)); };
  if (name == "ResizeTo") {
    return ResizeTo{.width = whole(0), .height = whole(1)};
  }
  if (name == "ResizeShortest") {
    return ResizeShortest{.size = whole(0),
                          .longest = numbers.size() > 1 ? std::optional(whole(1)) : std::nullopt};
  }
  if (name == "ResizeLongest") {
    return ResizeLongest{.size = whole(0)};
  }
  if (name == "CenterCrop") {
    return CenterCrop{.width = whole(0), .height = whole(1)};
  }
  if (name == "RandomCrop") {
    return RandomCrop{.width = whole(0), .height = whole(1)};
  }
  if (name == "RandomResizedCrop") {
    return RandomResizedCrop{.width = whole(0),
                             .height = whole(1),
                             .scale = {real(2), real(3)},
                             .ratio = {real(4), real(5)}};
  }
  if (name == "RandomHorizontalFlip") {
    return RandomHorizontalFlip{.p = real(0)};
  }
  if (name == "RandomVerticalFlip") {
    return RandomVerticalFlip{.p = real(0)};
  }
  if (name == "RandomRotation") {
    return RandomRotation{.degrees = {real(0), real(1)}};
  }
  if (name == "PadToSquare") {
    return PadToSquare{};
  }
  if (name == "Pad") {
    return Padding{.left = whole(0), .top = whole(1), .right = whole(2), .bottom = whole(3)};
  }
  if (name == "ColorJitter") {
    return ColorJitter{
        .brightness = real(0), .contrast = real(1), .saturation = real(2), .hue = real(3)};
  }
  if (name == "RandomGrayscale") {
    return RandomGray{.p = real(0)};
  }
  throw Error(ErrorCode::kInternal, fmt::format("a transform called '{}'", name));
}

template <class Choice>
Choice choice_called(const std::string& name,
                     std::initializer_list<std::pair<std::string_view, Choice>> choices) {
  for (const auto& [known, choice] : choices) {
    if (name == known) {
      return choice;
    }
  }
  throw Error(ErrorCode::kInternal, fmt::format("a transform with '{}'", name));
}

// One number for all channels, or one for each.
std::array<double, kMaxImageChannels> by_channel(const std::vector<double>& numbers, int channels,
                                                 std::string_view what) {
  std::array<double, kMaxImageChannels> all = {};
  if (numbers.size() != 1 && std::ssize(numbers) != channels) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} values, but the images have {} channels", what,
                            numbers.size(), channels));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = numbers.size() == 1 ? numbers[0] : i < numbers.size() ? numbers[i] : 0;
  }
  return all;
}

int channels_of_mode(const ImageOptions& mode, const std::string& name) {
  switch (mode.channels) {
    case ImageChannels::kGray:
      return 1;
    case ImageChannels::kRgb:
      return 3;
    case ImageChannels::kRgba:
      return 4;
    case ImageChannels::kAsStored:
      break;
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("image_decode='{}' keeps the channels as stored; a transform needs a mode "
                  "with a number of channels, such as 'pilrgb'",
                  name));
}

ImageLayout layout_of(const NamedStep& layout) {
  const auto& [name, numbers] = layout;
  const auto whole = [&numbers = numbers](std::size_t i) {
    return static_cast<std::int64_t>(numbers.at(i));
  };
  if (name == "Patches") {
    return PatchLayout{.patch = whole(0),
                       .temporal = whole(1),
                       .merge = whole(2),
                       .min_pixels = whole(3),
                       .max_pixels = whole(4)};
  }
  if (name == "Tiles") {
    return TileLayout{.width = whole(0),
                      .height = whole(1),
                      .min_tiles = whole(2),
                      .max_tiles = whole(3),
                      .thumbnail = whole(4) != 0};
  }
  throw Error(ErrorCode::kInternal, fmt::format("a layout called '{}'", name));
}

// The options that transforms.native_sound_options() makes. Returns nullopt without "sound_rate".
std::optional<SoundTransform> take_sound_transform(OptionReader& options) {
  std::optional<int> rate;
  std::optional<std::array<std::int64_t, 5>> log_mel;
  options.take("sound_rate", rate);
  options.take("sound_log_mel", log_mel);
  if (!rate) {
    return std::nullopt;
  }
  SoundTransformOptions transform = {.sample_rate = *rate};
  if (log_mel) {
    const auto& [mels, hop, fft, seconds, pad] = *log_mel;
    transform.log_mel =
        LogMelOptions{.mels = mels, .hop = hop, .fft = fft, .seconds = seconds, .pad = pad != 0};
  }
  return SoundTransform(transform);
}

}  // namespace

std::optional<TransformParts> take_transform(OptionReader& options, const std::string& mode_name) {
  std::optional<std::vector<NamedStep>> named;
  std::optional<NamedStep> layout;
  bool exact = false;
  std::optional<std::string> dtype;
  std::optional<std::vector<double>> mean;
  std::optional<std::vector<double>> stddev;
  std::vector<double> fill = {0};
  std::string filter = "bilinear";
  TransformParts parts;
  ImageTransformOptions& transform = parts.options;
  options.take("image_steps", named);
  options.take("image_layout", layout);
  options.take("image_exact", exact);
  options.take("image_dtype", dtype);
  options.take("image_mean", mean);
  options.take("image_std", stddev);
  options.take("image_fill", fill);
  options.take("image_filter", filter);
  options.take("image_antialias", transform.antialias);
  const std::optional<ImageOptions> mode = image_options_of_mode(mode_name);
  if (!named || !mode) {
    return std::nullopt;
  }
  transform.channels = channels_of_mode(*mode, mode_name);
  transform.format.channels_first = mode->layout == PixelLayout::kChannelsFirst;
  transform.format.dtype = dtype ? choice_called<DType>(*dtype, {{"uint8", DType::kUInt8},
                                                                 {"float16", DType::kFloat16},
                                                                 {"bfloat16", DType::kBFloat16},
                                                                 {"float32", DType::kFloat32}})
                                 : mode->dtype;
  transform.filter = choice_called<ResizeFilter>(filter, {{"nearest", ResizeFilter::kNearest},
                                                          {"box", ResizeFilter::kBox},
                                                          {"bilinear", ResizeFilter::kBilinear},
                                                          {"bicubic", ResizeFilter::kBicubic}});
  transform.fill = by_channel(fill, transform.channels, "fill");
  if (mean && stddev) {
    transform.format.mean = by_channel(*mean, transform.channels, "Normalize(mean=...)");
    transform.format.stddev = by_channel(*stddev, transform.channels, "Normalize(std=...)");
  }
  if (layout) {
    transform.layout = layout_of(*layout);
  }
  if (exact) {
    transform.decode_margin = std::numeric_limits<double>::infinity();
  }
  for (const NamedStep& step : *named) {
    parts.steps.push_back(step_of(step));
  }
  return parts;
}

std::optional<SampleDecoderOptions> take_decoder(OptionReader& options) {
  bool decodes = false;
  bool av_tensors = false;
  std::optional<std::string> image;
  SampleDecoderOptions decoder;
  options.take("decode", decodes);
  options.take("image_decode", image);
  options.take("apply_orientation", decoder.apply_orientation);
  if (std::optional<TransformParts> parts = take_transform(options, image.value_or(""))) {
    decoder.transform = ImageTransform(std::move(parts->steps), parts->options);
  }
  decoder.sound_transform = take_sound_transform(options);
  options.take("av_tensors", av_tensors);
  options.take("audio_sample_rate", decoder.audio_sample_rate);
  options.take("guess_content", decoder.guess_content);
  options.take("decode_parts", decoder.parts);
  options.take("leaves_bytes", decoder.leaves_bytes);
  if (!decodes) {
    return std::nullopt;
  }
  decoder.image = image.value_or("");
  decoder.av = av_tensors ? AvMode::kTensors : AvMode::kBytes;
  return decoder;
}

TensorKind tensor_kind_called(const std::string& name) {
  if (name == "torch") {
    return TensorKind::kTorch;
  }
  if (name == "numpy") {
    return TensorKind::kNumpy;
  }
  if (name == "energon") {
    return TensorKind::kEnergon;
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("tensors must be 'energon', 'numpy' or 'torch', not '{}'", name));
}

void bind_part_decoder(nb::module_& module) {
  module.def(
      "is_av_name",
      [](const std::string& name) { return content_kind_of_name(name) == ContentKind::kAv; },
      nb::arg("name"), "Whether parts with this name contain sound or video.");
  module.def(
      "is_sound_name", [](const std::string& name) { return is_sound_name(name); }, nb::arg("name"),
      "Whether parts with this name contain sound alone.");
  module.def(
      "smart_resize",
      [](std::int64_t height, std::int64_t width, std::int64_t factor, std::int64_t min_pixels,
         std::int64_t max_pixels) {
        const ImageSize size =
            smart_resize({.width = width, .height = height}, factor, min_pixels, max_pixels);
        return std::pair(size.height, size.width);
      },
      nb::arg("height"), nb::arg("width"), nb::arg("factor"), nb::arg("min_pixels"),
      nb::arg("max_pixels"), "The size of the image of a PatchLayout.");
  nb::class_<PartDecoder>(module, "PartDecoder", "The native half of SampleDecoder.decode().")
      .def(nb::new_([](const nb::dict& values, const std::string& tensors) {
             OptionReader options(values);
             SampleDecoderOptions decoder = take_decoder(options).value_or(SampleDecoderOptions{});
             options.finish();
             return PartDecoder(std::move(decoder), tensor_kind_called(tensors));
           }),
           nb::arg("options"), nb::arg("tensors"))
      .def(
          "decode",
          [](const PartDecoder& self, const std::string& name, nb::handle data) {
            return self.decode(name, bytes_of_python(data), heap_memory());
          },
          nb::arg("name"), nb::arg("data"),
          nb::sig("def decode(self, name: str, data: typing.Any) -> typing.Any"));
}

// --- AVDecoder ---

namespace {

using Ranges = std::vector<std::pair<double, double>>;

std::vector<ClipRange> clip_ranges(const Ranges& ranges) {
  std::vector<ClipRange> clips;
  clips.reserve(ranges.size());
  for (const auto& [begin, end] : ranges) {
    clips.push_back({.begin = begin, .end = end});
  }
  return clips;
}

// Whether `unit` is `whole` rather than "seconds".
bool is_whole(const std::string& unit, std::string_view whole) {
  if (unit != "seconds" && unit != whole) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the unit must be 'seconds' or '{}', not '{}'", whole, unit));
  }
  return unit == whole;
}

std::optional<FrameSize> frame_size(const std::optional<std::pair<int, int>>& size) {
  return size ? std::optional(FrameSize{.width = size->first, .height = size->second})
              : std::nullopt;
}

/// An AvDecoder that threads may share: calls run one at a time, without the GIL.
class AvFile {
 public:
  AvFile(nb::handle data, std::optional<int> audio_sample_rate)
      : decoder_(bytes_of_python(data), {.audio_sample_rate = audio_sample_rate}) {}

  template <class Function>
  auto call(Function&& function) {
    const ReleaseGil released;
    const MutexLock lock(mutex_);
    return std::forward<Function>(function)(decoder_);
  }

 private:
  Mutex mutex_;
  AvDecoder decoder_;
};

nb::list video_clips(AvFile& self, const Ranges& ranges, const std::string& unit,
                     const std::optional<std::pair<int, int>>& size, const std::string& tensors) {
  const TensorKind kind = tensor_kind_called(tensors);
  const VideoUnit in = is_whole(unit, "frames") ? VideoUnit::kFrames : VideoUnit::kSeconds;
  const auto clips = self.call([&](AvDecoder& decoder) {
    return decoder.video_clips(clip_ranges(ranges), in, frame_size(size), heap_memory());
  });
  nb::list result;
  for (const std::optional<VideoClip>& clip : clips) {
    if (clip) {
      result.append(nb::make_tuple(tensor_to_python(clip->frames, kind), clip->begin_seconds,
                                   clip->end_seconds));
    } else {
      result.append(nb::none());
    }
  }
  return result;
}

nb::list audio_clips(AvFile& self, const Ranges& ranges, const std::string& unit,
                     const std::string& tensors) {
  const TensorKind kind = tensor_kind_called(tensors);
  const AudioUnit in = is_whole(unit, "samples") ? AudioUnit::kSamples : AudioUnit::kSeconds;
  const auto clips = self.call([&](AvDecoder& decoder) {
    return decoder.audio_clips(clip_ranges(ranges), in, heap_memory());
  });
  nb::list result;
  for (const std::optional<AudioClip>& clip : clips) {
    if (clip) {
      result.append(nb::make_tuple(tensor_to_python(clip->samples, kind), clip->begin_seconds,
                                   clip->end_seconds));
    } else {
      result.append(nb::none());
    }
  }
  return result;
}

// Uses the names of Energon's AVMetadata.
nb::dict av_metadata(AvFile& self) {
  const AvMetadata found = self.call([](AvDecoder& decoder) { return decoder.metadata(); });
  nb::dict result;
  result["video_duration"] = found.video_duration_seconds;
  result["video_num_frames"] = found.video_frames;
  result["video_fps"] = found.video_fps;
  result["video_width"] = found.width;
  result["video_height"] = found.height;
  result["audio_duration"] = found.audio_duration_seconds;
  result["audio_channels"] = found.audio_channels;
  result["audio_sample_rate"] = found.audio_sample_rate;
  result["audio_num_samples"] = found.audio_samples;
  return result;
}

template <auto Method>
auto calls() {
  return [](AvFile& self) {
    return self.call([](AvDecoder& decoder) { return (decoder.*Method)(); });
  };
}

}  // namespace

void bind_av(nb::module_& module) {
  nb::class_<AvFile>(module, "AvFile", "The native half of AVDecoder.")
      .def(nb::init<nb::handle, std::optional<int>>(), nb::arg("data"),
           nb::arg("audio_sample_rate").none(),
           nb::sig("def __init__(self, data: typing.Any, audio_sample_rate: int | None) -> None"))
      .def("has_video", calls<&AvDecoder::has_video>())
      .def("has_audio", calls<&AvDecoder::has_audio>())
      .def("video_frame_count", calls<&AvDecoder::video_frame_count>())
      .def("video_fps", calls<&AvDecoder::video_fps>())
      .def("video_duration", calls<&AvDecoder::video_duration_seconds>())
      .def("audio_sample_count", calls<&AvDecoder::audio_sample_count>())
      .def("audio_sample_rate", calls<&AvDecoder::audio_sample_rate>())
      .def("audio_duration", calls<&AvDecoder::audio_duration_seconds>())
      .def("metadata", av_metadata, nb::sig("def metadata(self) -> dict[str, typing.Any]"))
      .def("video_clips", video_clips, nb::arg("ranges"), nb::arg("unit"), nb::arg("size").none(),
           nb::arg("tensors"),
           nb::sig("def video_clips(self, ranges: list[tuple[float, float]], unit: str, size: "
                   "tuple[int, int] | None, tensors: str) -> list[typing.Any]"),
           "For each range, (frames, begin, end) in seconds, or None after the end of the video.")
      .def("audio_clips", audio_clips, nb::arg("ranges"), nb::arg("unit"), nb::arg("tensors"),
           nb::sig("def audio_clips(self, ranges: list[tuple[float, float]], unit: str, tensors: "
                   "str) -> list[typing.Any]"),
           "For each range, (samples, begin, end) in seconds, or None after the end of the sound.");
}

}  // namespace energon::python
