#include "media/decode/sample_decoder.h"

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/stage/call_context.h"
#include "io/error.h"
#include "io/file.h"
#include "media/transform/image_transform.h"
#include "tests/media/av/av_files.h"
#include "tests/media/image/image_file.h"
#include "tests/support/error_of.h"
#include "tests/support/shared_data.h"

using energon::AvMode;
using energon::ErrorCode;
using energon::heap_memory;
using energon::Sample;
using energon::SampleDecoder;
using energon::SharedBytes;
using energon::Tensor;
using energon::Value;
using energon::testing::error_of;

using namespace std::string_view_literals;  // NOLINT: texts with NUL

namespace {

// A PNG of one red pixel.
constexpr std::string_view kRedPixel =
    "\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xDE"
    "\0\0\0\x0CIDAT\x78\xDA\x63\xF8\xCF\xC0\0\0\x03\x01\x01\0\xF7\x03"
    "AC"
    "\0\0\0\0IEND\xAE"
    "B`\x82"sv;

SharedBytes bytes(std::string_view text) { return {energon::as_bytes(text), nullptr}; }

Value decoded(std::string_view name, std::string_view content,
              const energon::SampleDecoderOptions& options = {}) {
  return SampleDecoder(options).decode_part(name, bytes(content), heap_memory());
}

bool stays(const Value& value) { return std::holds_alternative<SharedBytes>(value.base()); }

}  // namespace

TEST_CASE("a part is decoded by its name", "[media][sample_decoder]") {
  CHECK(std::get<std::string>(decoded("txt", "caf\xc3\xa9").base()) == "caf\xc3\xa9");
  CHECK(std::get<std::int64_t>(decoded("cls", "7\n").base()) == 7);
  const Value json = decoded("meta.json", R"({"width": 640, "tags": [true, null]})");
  CHECK(std::get<energon::Mapping>(json.base()).size() == 2);
  const auto image = std::get<Tensor>(decoded("jpg", kRedPixel).base());  // a PNG called jpg
  CHECK(image.dtype == energon::DType::kFloat32);
  CHECK(image.shape == std::vector<std::int64_t>{3, 1, 1});
  CHECK(stays(decoded("bin", "text")));
  CHECK(stays(decoded("pkl", "\x80\x04N.")));
}

TEST_CASE("images have the requested mode, or stay bytes", "[media][sample_decoder]") {
  const auto image = std::get<Tensor>(decoded("png", kRedPixel, {.image = "rgba8"}).base());
  CHECK(image.shape == std::vector<std::int64_t>{1, 1, 4});
  CHECK(image.data.text() == "\xFF\0\0\xFF"sv);
  CHECK(stays(decoded("png", kRedPixel, {.image = ""})));
  CHECK_THAT(error_of([] { SampleDecoder({.image = "rgb16"}); }, ErrorCode::kInvalidArgument),
             Catch::Contains("unknown image mode 'rgb16'") && Catch::Contains("torchrgb8"));
}

TEST_CASE("images are transformed while they are decoded", "[media][sample_decoder]") {
  const std::string jpeg = energon::testing::image_file("exif6.jpg");
  const energon::ImageTransform random(
      {energon::RandomResizedCrop{.width = 11, .height = 9}, energon::RandomHorizontalFlip{}});
  CHECK(random.is_random());
  const SampleDecoder decoder({.transform = random, .apply_orientation = true});
  energon::ImageTransform own = random;
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    energon::CallRng rng(seed);
    energon::CallRng same(seed);
    const auto image =
        std::get<Tensor>(decoder.decode_part("jpg", bytes(jpeg), heap_memory(), &rng).base());
    const Tensor expected = energon::decode_transformed(energon::as_bytes(jpeg), own, same,
                                                        heap_memory(), {.apply_orientation = true});
    CHECK(image.shape == std::vector<std::int64_t>{3, 9, 11});
    CHECK(image.data.text() == expected.data.text());
    CHECK(rng() == same());  // it has drawn as many numbers
  }
  CHECK_THAT(error_of([&] { decoder.decode_part("jpg", bytes(jpeg), heap_memory()); },
                      ErrorCode::kInvalidArgument),
             Catch::Contains("part 'jpg': the transform draws random numbers"));
  CHECK_THAT(error_of([&] { SampleDecoder({.image = "", .transform = random}); },
                      ErrorCode::kInvalidArgument),
             Catch::Contains("a transform needs decoded images"));
  // Without random steps, no numbers are needed. Other parts are decoded as always.
  const SampleDecoder fixed(
      {.transform = energon::ImageTransform({energon::CenterCrop{.width = 5, .height = 4}})});
  CHECK_FALSE(fixed.is_random());
  const auto cropped =
      std::get<Tensor>(fixed.decode_part("jpg", bytes(jpeg), heap_memory()).base());
  CHECK(cropped.shape == std::vector<std::int64_t>{3, 4, 5});
  CHECK(std::get<std::string>(fixed.decode_part("txt", bytes("a"), heap_memory()).base()) == "a");
}

TEST_CASE("threads share a decoder with a transform", "[media][sample_decoder]") {
  const std::string jpeg = energon::testing::image_file("420.jpg");
  const SampleDecoder decoder(
      {.transform = energon::ImageTransform({energon::RandomCrop{.width = 30, .height = 30},
                                             energon::ColorJitter{.brightness = 0.5}})});
  const auto run = [&](std::uint32_t seed) {
    energon::CallRng rng(seed);
    const auto image =
        std::get<Tensor>(decoder.decode_part("jpg", bytes(jpeg), heap_memory(), &rng).base());
    return std::string(image.data.text());
  };
  std::vector<std::string> expected;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    expected.push_back(run(seed));
  }
  std::vector<std::vector<std::string>> found(4);
  {
    std::vector<std::jthread> threads;
    for (auto& images : found) {
      threads.emplace_back([&] {
        for (std::uint32_t seed = 0; seed < 20; ++seed) {
          images.push_back(run(seed));
        }
      });
    }
  }
  for (const auto& images : found) {
    CHECK(images == expected);
  }
}

TEST_CASE("content is guessed for unknown names, if requested", "[media][sample_decoder]") {
  CHECK(stays(decoded("bin", kRedPixel)));
  CHECK_FALSE(stays(decoded("bin", kRedPixel, {.guess_content = true})));
  CHECK(stays(decoded("bin", "text", {.guess_content = true})));
}

TEST_CASE("parts in gzip are expanded first", "[media][sample_decoder]") {
  constexpr std::string_view kGzipped =
      "\x1F\x8B\x08\0\0\0\0\0\x02\x03\xCBH\xCD\xC9\xC9\x07\0\x86\xA6\x10\x36\x05\0\0\0"sv;  // "hello"
  CHECK(std::get<std::string>(decoded("txt.gz", kGzipped).base()) == "hello");
  CHECK(std::get<SharedBytes>(decoded("bin.gz", kGzipped).base()).text() == "hello");
}

TEST_CASE("sound and video stay bytes, or become tensors", "[media][sample_decoder]") {
  const auto path = energon::testing::shared_data("av/test_audio.wav");
  if (!path) {
    return energon::testing::skipped();
  }
  const auto content = std::make_shared<const std::string>(energon::read_file(*path));
  const SharedBytes wav{energon::as_bytes(*content), content};
  CHECK(stays(SampleDecoder().decode_part("wav", wav, heap_memory())));
  Sample sound;
  sound.fields = std::get<energon::Mapping>(
      SampleDecoder({.av = AvMode::kTensors}).decode_part("wav", wav, heap_memory()).base());
  CHECK(sound.tensor("audio").shape.size() == 2);
  CHECK(sound.integer("audio_sample_rate") > 0);
  CHECK(sound.find("video") == nullptr);
}

TEST_CASE("parts with sound are transformed, video is not", "[media][sample_decoder]") {
  const std::string wav = energon::testing::av_file("mono.wav");  // 1200 samples of 8 kHz
  const std::string mp4 = energon::testing::av_file("h264_aac.mp4");
  const energon::SampleDecoderOptions options = {
      .sound_transform =
          energon::SoundTransform({.log_mel = energon::LogMelOptions{.seconds = 1}})};
  const auto features = std::get<Tensor>(decoded("speech.WAV", wav, options).base());
  CHECK(features.dtype == energon::DType::kFloat32);
  CHECK(features.shape == std::vector<std::int64_t>{80, 100});
  CHECK(stays(decoded("mp4", mp4, options)));
  const energon::SampleDecoderOptions samples = {.av = AvMode::kTensors,
                                                 .sound_transform = energon::SoundTransform({})};
  CHECK(std::get<Tensor>(decoded("wav", wav, samples).base()).shape ==
        std::vector<std::int64_t>{2400});
  CHECK(std::holds_alternative<energon::Mapping>(decoded("mp4", mp4, samples).base()));
  CHECK(error_of([&] { decoded("m4a", "", options); }, ErrorCode::kCorruptData)
            .starts_with("part 'm4a': "));
}

TEST_CASE("only named parts of a sample are decoded", "[media][sample_decoder]") {
  Sample sample;
  sample.set("txt", bytes("fine"));
  sample.set("json", bytes("{"));  // damaged, but not requested
  sample.set("cls", bytes("7"));
  SampleDecoder({.parts = {{"cls", "absent"}}}).decode(sample, heap_memory());
  CHECK(sample.integer("cls") == 7);
  CHECK(sample.bytes("txt").text() == "fine");
  CHECK(sample.bytes("json").text() == "{");
  SampleDecoder({.parts = std::vector<std::string>{}}).decode(sample, heap_memory());
  CHECK(sample.bytes("txt").text() == "fine");
  SampleDecoder({.parts = {{"txt"}}}).decode(sample, heap_memory());
  CHECK(sample.text("txt") == "fine");
}

TEST_CASE("a part that cannot be decoded is named, with its sample", "[media][sample_decoder]") {
  Sample sample;
  sample.keys = {"000017"};
  sample.set("txt", bytes("fine"));
  sample.set("json", bytes("{"));
  const std::string message =
      error_of([&] { SampleDecoder().decode(sample, heap_memory()); }, ErrorCode::kCorruptData);
  CHECK_THAT(message, Catch::Contains("part 'json'"));
  try {
    SampleDecoder().decode(sample, heap_memory());
  } catch (const energon::Error& error) {
    CHECK(error.context().sample_key == "000017");
  }
}
