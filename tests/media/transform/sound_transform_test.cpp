#include "media/transform/sound_transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <catch2/catch.hpp>

#include "energon/sample/buffer_allocator.h"
#include "tests/media/transform/model_vectors.h"
#include "tests/media/transform/noise_image.h"
#include "tests/support/error_of.h"

using energon::DType;
using energon::heap_memory;
using energon::LogMelOptions;
using energon::SoundTransform;
using energon::Tensor;
using energon::testing::error_of;
using energon::testing::numbers_in;

namespace {

template <class Number>
Tensor tensor_of(const std::vector<Number>& numbers, DType dtype, std::vector<std::int64_t> shape) {
  energon::NewTensor result = energon::new_tensor(dtype, std::move(shape), heap_memory());
  std::memcpy(result.bytes.data(), numbers.data(), result.bytes.size());
  return result.tensor;
}

// The sound of make_model_vectors.py.
Tensor sound(std::int64_t count) {
  const energon::testing::Pixels noise = energon::testing::noise(count, 1, 1);
  std::vector<std::int16_t> samples;
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t phase = n * n / 64 % 4096;
    const std::int64_t triangle = std::min(phase, 4096 - phase) - 1024;
    const auto tone = std::floor(static_cast<double>(triangle * (n % 20000)) / 2000);
    const int level = std::to_integer<int>(noise[static_cast<std::size_t>(n)]) - 128;
    samples.push_back(static_cast<std::int16_t>(static_cast<int>(tone) + level * 8));
  }
  return tensor_of(samples, DType::kInt16, {1, count});
}

// The largest difference to each k-th value.
double difference(const std::vector<float>& values, const std::vector<float>& expected,
                  std::size_t most_values) {
  const std::size_t step = std::max<std::size_t>(values.size() / most_values, 1);
  double most = expected.size() == (values.size() + step - 1) / step ? 0 : 1e9;
  for (std::size_t i = 0; i < expected.size() && i * step < values.size(); ++i) {
    most = std::max(
        most, std::abs(static_cast<double>(values[i * step]) - static_cast<double>(expected[i])));
  }
  return most;
}

}  // namespace

TEST_CASE("log-mel spectrograms equal those of Whisper's extractor", "[media][sound]") {
  for (const auto& one : energon::testing::kLogMels) {
    INFO(one.mels << " mels, " << one.samples << " samples in " << one.seconds << " s");
    const SoundTransform transform(
        {.log_mel = LogMelOptions{.mels = one.mels, .seconds = one.seconds, .pad = one.pad}});
    energon::testing::with_all_instructions([&] {
      const Tensor result = transform.run(sound(one.samples), 16000, heap_memory());
      CHECK(result.shape == std::vector<std::int64_t>{one.mels, one.frames});
      CHECK(difference(numbers_in<float>(result.data.view), one.values, 400) < 2e-5);
    });
  }
}

TEST_CASE("resampling equals that of torchaudio", "[media][sound]") {
  for (const auto& one : energon::testing::kResamples) {
    INFO(one.from << " to " << one.to << " Hz");
    const Tensor made = energon::resampled(sound(one.samples), one.from, one.to, {}, heap_memory());
    const auto result = numbers_in<float>(made.data.view);
    CHECK(made.shape == std::vector<std::int64_t>{1, one.size});
    CHECK(difference(result, one.values, 100) < 1e-6);
    const SoundTransform waveform({.sample_rate = one.to});
    const Tensor whole = waveform.run(sound(one.samples), one.from, heap_memory());
    CHECK(numbers_in<float>(whole.data.view) == result);
  }
}

TEST_CASE("channels of every number format become one", "[media][sound]") {
  using Floats = std::vector<float>;
  const std::vector<std::int16_t> stereo = {16384, 0, -32768, 16384, 8192, -32768};
  CHECK(energon::mono_samples(tensor_of(stereo, DType::kInt16, {2, 3})) ==
        Floats{0.5F, 0.125F, -1.0F});
  CHECK(energon::mono_samples(tensor_of(std::vector<std::uint8_t>{0, 128, 192}, DType::kUInt8,
                                        {1, 3})) == Floats{-1, 0, 0.5F});
  CHECK(energon::mono_samples(
            tensor_of(std::vector<std::int32_t>{1 << 30}, DType::kInt32, {1, 1})) == Floats{0.5F});
  CHECK(energon::mono_samples(tensor_of(std::vector<double>{0.25}, DType::kFloat64, {1, 1})) ==
        Floats{0.25F});
  CHECK(error_of([] { energon::mono_samples(tensor_of(Floats{1}, DType::kFloat32, {1})); },
                 energon::ErrorCode::kInvalidArgument)
            .find("1 dimensions: expected (channels, samples)") != std::string::npos);
}

TEST_CASE("frames of any length, and sound that ends anywhere", "[media][sound]") {
  // The same frames, whether the silence after the sound is computed or known.
  std::vector<float> padded = energon::mono_samples(sound(3000));
  const Tensor alone = tensor_of(padded, DType::kFloat32, {1, 3000});
  padded.resize(16000);
  const Tensor silent = tensor_of(padded, DType::kFloat32, {1, 16000});
  for (const std::int64_t fft : {400, 250, 512, 98, 22, 2}) {
    INFO("fft " << fft);
    const SoundTransform transform({.log_mel = LogMelOptions{.fft = fft, .seconds = 1}});
    const Tensor result = transform.run(alone, 16000, heap_memory());
    CHECK(result.shape == std::vector<std::int64_t>{80, 100});
    CHECK(energon::testing::largest_difference<float>(
              result.data.view, transform.run(silent, 16000, heap_memory()).data.view) == 0);
  }
  const SoundTransform transform({.log_mel = LogMelOptions{.seconds = 1}});
  const Tensor none = tensor_of(std::vector<float>{}, DType::kFloat32, {1, 0});
  const auto silence = numbers_in<float>(transform.run(none, 16000, heap_memory()).data.view);
  CHECK(std::ranges::all_of(silence, [](float value) { return value == -1.5F; }));
  CHECK(transform.needed_samples(16000) == 16000 + 7 + 1);
  CHECK_FALSE(SoundTransform({}).needed_samples(16000));
}

TEST_CASE("invalid sound and options are refused", "[media][sound]") {
  const auto refusal = [](const LogMelOptions& options) {
    return error_of([&] { SoundTransform({.log_mel = options}); },
                    energon::ErrorCode::kInvalidArgument);
  };
  CHECK(refusal({.fft = 401}).find("must be even") != std::string::npos);
  CHECK(refusal({.mels = 0}).find("LogMelOptions::mels of 0") != std::string::npos);
  const SoundTransform unpadded({.log_mel = LogMelOptions{.pad = false}});
  CHECK(error_of([&] { unpadded.run(sound(200), 16000, heap_memory()); },
                 energon::ErrorCode::kInvalidArgument)
            .find("needs more than 200") != std::string::npos);
  CHECK(error_of([&] { unpadded.run(sound(200), 0, heap_memory()); },
                 energon::ErrorCode::kInvalidArgument)
            .find("a sample rate of 0 Hz") != std::string::npos);
}
