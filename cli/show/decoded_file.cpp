#include "cli/show/decoded_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/show/png_file.h"
#include "cli/show/wav_file.h"
#include "io/error.h"
#include "io/hash.h"
#include "io/overloaded.h"
#include "media/data/tensor_files.h"

namespace energon::cli {
namespace {

using ValueJson = nlohmann::ordered_json;

[[noreturn]] void refuse(std::string_view wanted, const Value& value) {
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("{}, and the decoder made {}: write .npy for a tensor, .json for any value",
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

// The library has no integer of any size: such a number is its digits, as binary, which no other
// value is.
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

// As dump(2) of the library, but for its binary values.
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

/// How the elements of an image lie in its tensor.
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
    refuse("a .txt needs a text", value);
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("--output '{}' says no format: with --decode it ends in .npy, .png, .wav, "
                  ".txt or .json",
                  printable(path)));
}

}  // namespace energon::cli
