#include "cli/decoded_file.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <png.h>

#include "io/byte_codec.h"
#include "io/error.h"
#include "io/hash.h"
#include "io/overloaded.h"
#include "media/data/documents.h"

namespace energon::cli {

// --- PNG ---

std::string png_of_pixels(ByteView pixels, std::int64_t width, std::int64_t height, int channels) {
  constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                      PNG_FORMAT_RGBA};
  if (width < 1 || height < 1 || width > 65535 || height > 65535 || channels < 1 || channels > 4 ||
      pixels.size() != static_cast<std::size_t>(width * height * channels)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} bytes are not an image of {} x {} with {} channels", pixels.size(),
                            width, height, channels));
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = kFormats[channels - 1];
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string png(size, '\0');
  if (png_image_write_to_memory(&image, png.data(), &size, 0, pixels.data(), 0, nullptr) == 0) {
    throw Error(ErrorCode::kInternal, fmt::format("cannot write a PNG: {}", image.message));
  }
  png.resize(size);
  return png;
}

// --- WAVE (RIFF), with one "fmt " and one "data" chunk ---

namespace {

constexpr std::uint32_t kHeaderBytes = 36;  // counted by RIFF

void check_samples(const Tensor& samples, std::int64_t rate) {
  if (samples.shape.size() != 2 || rate < 1 || rate > UINT32_MAX ||
      samples.data.size() > UINT32_MAX - kHeaderBytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a .wav needs (channels, samples), at most 4 GiB, and a rate of 1 or "
                            "more, found {} bytes of shape ({}) at {} Hz",
                            samples.data.size(), fmt::join(samples.shape, ", "), rate));
  }
}

/// `samples` has the shape (channels, samples). Floats and integers are stored as they are; uint8
/// is unsigned in WAVE, too. `rate` is in samples per second. Throws Error (kInvalidArgument) for
/// another shape, a rate outside 1 to 2^32 - 1, or more than 4 GiB.
std::string wav_of_samples(const Tensor& samples, std::int64_t rate) {
  check_samples(samples, rate);
  const std::size_t sample_bytes = size_of(samples.dtype);
  const auto channels = static_cast<std::size_t>(samples.shape[0]);
  const auto count = static_cast<std::size_t>(samples.shape[1]);
  const bool is_float = samples.dtype == DType::kFloat32 || samples.dtype == DType::kFloat64;
  const auto frame = static_cast<std::uint32_t>(channels * sample_bytes);
  const auto data_bytes = static_cast<std::uint32_t>(samples.data.size());
  ByteWriter wav;
  wav.raw("RIFF");
  wav.u32(kHeaderBytes + data_bytes);
  wav.raw("WAVEfmt ");
  wav.u32(16);
  wav.u16(is_float ? 3 : 1);  // WAVE_FORMAT_IEEE_FLOAT or _PCM
  wav.u16(static_cast<std::uint16_t>(channels));
  wav.u32(static_cast<std::uint32_t>(rate));
  wav.u32(static_cast<std::uint32_t>(rate) * frame);
  wav.u16(static_cast<std::uint16_t>(frame));
  wav.u16(static_cast<std::uint16_t>(sample_bytes * 8));
  wav.raw("data");
  wav.u32(data_bytes);
  const std::string_view data = samples.data.text();
  for (std::size_t i = 0; i < count; ++i) {  // files interleave the channels
    for (std::size_t channel = 0; channel < channels; ++channel) {
      wav.raw(data.substr((channel * count + i) * sample_bytes, sample_bytes));
    }
  }
  return wav.take();
}

}  // namespace

// --- Values ---

namespace {

using ValueJson = nlohmann::ordered_json;

[[noreturn]] void refuse(std::string_view wanted, const Value& value) {
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("{}, but the decoder returned {}: use .npy for a tensor, .json for any value",
                  wanted, describe(value)));
}

ValueJson json_of(const Value& value);

ValueJson json_of(const List& list) {
  ValueJson json = ValueJson::array();
  for (const Value& element : list) {
    json.push_back(json_of(element));
  }
  return json;
}

// The library has no integers of arbitrary size. They become a binary value with their digits; no
// other value becomes binary.
ValueJson json_of(const Value& value) {
  return std::visit(Overloaded{
                        [](const SharedBytes& bytes) -> ValueJson {
                          return {{"bytes", bytes.size()}, {"digest", to_hex(xxh3_64(bytes.view))}};
                        },
                        [](const std::string& text) -> ValueJson { return text; },
                        [](std::int64_t integer) -> ValueJson { return integer; },
                        [](double number) -> ValueJson { return number; },
                        [](const Tensor& tensor) -> ValueJson {
                          return {{"dtype", to_string(tensor.dtype)},
                                  {"shape", tensor.shape},
                                  {"digest", to_hex(xxh3_64(tensor.data.view))}};
                        },
                        [](const List& list) -> ValueJson { return json_of(list); },
                        [](const Mapping& mapping) -> ValueJson {
                          ValueJson json = ValueJson::object();
                          for (const auto& [name, element] : mapping) {
                            json[name] = json_of(element);
                          }
                          return json;
                        },
                        [](const LazyBytes& lazy) -> ValueJson { return lazy.describe(); },
                        [](Null) -> ValueJson { return nullptr; },
                        [](bool truth) -> ValueJson { return truth; },
                        [](const Tuple& tuple) -> ValueJson { return json_of(tuple.items); },
                        [](const BigInteger& integer) -> ValueJson {
                          const std::string& digits = integer.digits();
                          return ValueJson::binary({digits.begin(), digits.end()});
                        },
                    },
                    value.base());
}

// Like dump(2) of the library, but writes binary values as they are.
std::string text_of(const ValueJson& json, const std::string& line_begin) {
  if (json.is_binary()) {
    return {json.get_binary().begin(), json.get_binary().end()};
  }
  if (!json.is_structured() || json.empty()) {
    return json.dump(-1, ' ', false, ValueJson::error_handler_t::replace);
  }
  const std::string inner = line_begin + "  ";
  std::string text = json.is_object() ? "{" : "[";
  for (const auto& item : json.items()) {
    text += text.size() == 1 ? inner : "," + inner;
    if (json.is_object()) {
      text +=
          ValueJson(item.key()).dump(-1, ' ', false, ValueJson::error_handler_t::replace) + ": ";
    }
    text += text_of(item.value(), inner);
  }
  return text + line_begin + (json.is_object() ? "}" : "]");
}

/// The layout of an image in its tensor.
struct ImagePlaces {
  std::int64_t height, width, channels;
  std::int64_t row, column, channel;  // distances in elements
};

ImagePlaces places_of(const Value& value) {
  const auto* tensor = std::get_if<Tensor>(&value.base());
  const auto is_count = [](std::int64_t channels) { return channels >= 1 && channels <= 4; };
  if (tensor != nullptr && tensor->shape.size() == 2) {
    return {tensor->shape[0], tensor->shape[1], 1, tensor->shape[1], 1, 1};
  }
  if (tensor != nullptr && tensor->shape.size() == 3 && is_count(tensor->shape[2])) {
    const auto& shape = tensor->shape;
    return {shape[0], shape[1], shape[2], shape[1] * shape[2], shape[2], 1};
  }
  if (tensor != nullptr && tensor->shape.size() == 3 && is_count(tensor->shape[0])) {
    const auto& shape = tensor->shape;
    return {shape[1], shape[2], shape[0], shape[2], 1, shape[1] * shape[2]};
  }
  refuse("a .png needs an image", value);
}

std::uint8_t level_of(const Tensor& tensor, std::int64_t element) {
  const std::byte* const data = tensor.data.view.data();
  if (tensor.dtype == DType::kUInt8) {
    return std::to_integer<std::uint8_t>(data[element]);
  }
  float number = 0;
  std::memcpy(&number, data + element * 4, 4);
  return static_cast<std::uint8_t>(std::lround(std::clamp(number, 0.0F, 1.0F) * 255));
}

std::string png_of(const Value& value) {
  const ImagePlaces places = places_of(value);
  const auto& tensor = std::get<Tensor>(value.base());
  if (tensor.dtype != DType::kUInt8 && tensor.dtype != DType::kFloat32) {
    refuse("a .png needs uint8 or float32", value);
  }
  std::vector<std::uint8_t> pixels;
  pixels.reserve(static_cast<std::size_t>(places.height * places.width * places.channels));
  for (std::int64_t y = 0; y < places.height; ++y) {
    for (std::int64_t x = 0; x < places.width; ++x) {
      for (std::int64_t c = 0; c < places.channels; ++c) {
        pixels.push_back(level_of(tensor, y * places.row + x * places.column + c * places.channel));
      }
    }
  }
  return png_of_pixels(std::as_bytes(std::span(pixels)), places.width, places.height,
                       static_cast<int>(places.channels));
}

std::string wav_of(const Value& value) {
  const auto* mapping = std::get_if<Mapping>(&value.base());
  Sample fields;
  fields.fields = mapping != nullptr ? *mapping : Mapping();
  if (fields.find("audio") == nullptr || fields.find("audio_sample_rate") == nullptr) {
    refuse("a .wav needs sound", value);
  }
  return wav_of_samples(fields.tensor("audio"), fields.integer("audio_sample_rate"));
}

}  // namespace

std::string value_json(const Value& value) { return text_of(json_of(value), "\n") + "\n"; }

std::string decoded_file(const std::string& path, const Value& value) {
  const std::string suffix = std::filesystem::path(path).extension().string();
  if (suffix == ".json") {
    return value_json(value);
  }
  if (suffix == ".png") {
    return png_of(value);
  }
  if (suffix == ".wav") {
    return wav_of(value);
  }
  if (suffix == ".npy") {
    if (const auto* tensor = std::get_if<Tensor>(&value.base())) {
      return encode_npy(*tensor);
    }
    refuse("a .npy needs a tensor", value);
  }
  if (suffix == ".txt") {
    if (const auto* text = std::get_if<std::string>(&value.base())) {
      return *text;
    }
    refuse("a .txt needs a string", value);
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("--output '{}' has no known format: with --decode, it must end in .npy, "
                          ".png, .wav, .txt or .json",
                          printable(path)));
}

// --- Failures ---

std::string reason_of_failure(const std::exception& error) {
  const auto* const known = dynamic_cast<const Error*>(&error);
  if (known == nullptr) {
    return error.what();
  }
  std::string text = known->message();
  const std::size_t end = text.find("': ");
  if (text.starts_with("part '") && end != std::string::npos) {
    text.erase(0, end + 3);
  }
  if (known->context().byte_offset) {
    text += fmt::format(" (byte {} of the part)", *known->context().byte_offset);
  }
  return text;
}

}  // namespace energon::cli
