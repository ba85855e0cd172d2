#include "cli/show/wav_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"

namespace energon::cli {
namespace {

constexpr std::uint32_t kHeaderBytes = 36;  // that RIFF counts

void append_little_endian(std::string& to, std::uint32_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    to.push_back(static_cast<char>(number >> (8 * i) & 0xFF));
  }
}

void check_samples(const Tensor& samples, std::int64_t rate) {
  if (samples.shape.size() != 2 || rate < 1 || rate > UINT32_MAX ||
      samples.data.size() > UINT32_MAX - kHeaderBytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a .wav needs (channels, samples), at most 4 GiB, and a rate of 1 or "
                            "more; these are {} bytes of shape ({}) at {} Hz",
                            samples.data.size(), fmt::join(samples.shape, ", "), rate));
  }
}

}  // namespace

std::string wav_of_samples(const Tensor& samples, std::int64_t rate) {
  check_samples(samples, rate);
  const std::size_t sample_bytes = size_of(samples.dtype);
  const auto channels = static_cast<std::size_t>(samples.shape[0]);
  const auto count = static_cast<std::size_t>(samples.shape[1]);
  const bool is_float = samples.dtype == DType::kFloat32 || samples.dtype == DType::kFloat64;
  const auto frame = static_cast<std::uint32_t>(channels * sample_bytes);
  const auto data_bytes = static_cast<std::uint32_t>(samples.data.size());
  std::string wav = "RIFF";
  append_little_endian(wav, kHeaderBytes + data_bytes, 4);
  wav += "WAVEfmt ";
  append_little_endian(wav, 16, 4);
  append_little_endian(wav, is_float ? 3 : 1, 2);  // WAVE_FORMAT_IEEE_FLOAT or _PCM
  append_little_endian(wav, static_cast<std::uint32_t>(channels), 2);
  append_little_endian(wav, static_cast<std::uint32_t>(rate), 4);
  append_little_endian(wav, static_cast<std::uint32_t>(rate) * frame, 4);
  append_little_endian(wav, frame, 2);
  append_little_endian(wav, static_cast<std::uint32_t>(sample_bytes * 8), 2);
  wav += "data";
  append_little_endian(wav, data_bytes, 4);
  const std::string_view data = samples.data.text();
  for (std::size_t i = 0; i < count; ++i) {  // in a file, the samples of all channels in turn
    for (std::size_t channel = 0; channel < channels; ++channel) {
      wav += data.substr((channel * count + i) * sample_bytes, sample_bytes);
    }
  }
  return wav;
}

}  // namespace energon::cli
