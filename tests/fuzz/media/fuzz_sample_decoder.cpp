// Parts of samples, decoded according to their names.

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "media/decode/sample_decoder.h"
#include "tests/fuzz/media/checked_value.h"
#include "tests/fuzz/media/choices.h"
#include "tests/fuzz/media/exact_memory.h"

namespace energon::fuzz {
namespace {

// In the order of make_seeds.py.
constexpr std::array<std::string_view, 20> kNames = {
    "bin", "jpg", "txt", "cls", "json",   "msgpack", "cbor", "npy", "npz", "safetensors",
    "ten", "pth", "mp4", "pyd", "x.JPEG", "x.index", "png",  "gz",  "wav", "pickle"};

SampleDecoderOptions options_of(Choices& choices) {
  const auto modes = image_mode_names();
  const std::size_t mode = choices.below(modes.size() + 1);
  return {.image = mode == modes.size() ? std::string() : std::string(modes[mode]),
          .av = choices.yes() ? AvMode::kTensors : AvMode::kBytes,
          .guess_content = choices.yes(),
          .limits = kFuzzLimits};
}

}  // namespace
}  // namespace energon::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  fuzz::Choices choices(data, size);
  const std::string_view name = fuzz::kNames[choices.below(fuzz::kNames.size())];
  const std::string part = std::string(name) + (choices.yes() ? ".gz" : "");
  const SampleDecoder decoder(fuzz::options_of(choices));
  const auto content = std::make_shared<std::string>(as_text(choices.rest()));
  const SharedBytes bytes = {.view = as_bytes(*content), .owner = content};
  fuzz::ExactMemory memory;
  return fuzz::try_to_read([&] {
    try {
      fuzz::check_value(decoder.decode_part(part, bytes, memory));
    } catch (const Error& error) {
      fuzz::require(error.message().find(part) != std::string::npos);
      throw;
    }
  });
}
