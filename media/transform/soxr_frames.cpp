#include <memory>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <soxr.h>

#include "io/error.h"
#include "media/transform/resample_frames.h"

namespace energon {
namespace {

constexpr std::size_t kSilentFrames = 1024;

struct SoxrDeleter {
  void operator()(soxr_t resampler) const { soxr_delete(resampler); }
};
using UniqueSoxr = std::unique_ptr<soxr, SoxrDeleter>;

unsigned long recipe_of(ResampleQuality quality) {
  switch (quality) {
    case ResampleQuality::kQuick:
      return SOXR_QQ;
    case ResampleQuality::kLow:
      return SOXR_LQ;
    case ResampleQuality::kMedium:
      return SOXR_MQ;
    case ResampleQuality::kHigh:
      return SOXR_HQ;
    case ResampleQuality::kVeryHigh:
      break;
  }
  return SOXR_VHQ;
}

[[noreturn]] void soxr_failed(const char* cause) {
  throw Error(ErrorCode::kInternal, fmt::format("libsoxr cannot resample: {}", cause));
}

UniqueSoxr open_soxr(int channels, std::int64_t from_rate, std::int64_t to_rate,
                     ResampleQuality quality) {
  const std::int64_t divisor = std::gcd(from_rate, to_rate);
  const soxr_io_spec_t samples = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t recipe = soxr_quality_spec(recipe_of(quality), 0);
  const soxr_runtime_spec_t one_thread = soxr_runtime_spec(1);
  soxr_error_t error = nullptr;
  const std::int64_t from = from_rate / divisor;
  const std::int64_t to = to_rate / divisor;
  UniqueSoxr resampler(soxr_create(static_cast<double>(from), static_cast<double>(to),
                                   static_cast<unsigned>(channels), &error, &samples, &recipe,
                                   &one_thread));
  if (error != nullptr || resampler == nullptr) {
    soxr_failed(error != nullptr ? error : "no memory");
  }
  return resampler;
}

// Gives frames to the resampler until all are taken or `to` is full; returns the frames written.
std::size_t feed(soxr_t resampler, std::span<const float> from, int channels, std::span<float> to) {
  const auto count = static_cast<std::size_t>(channels);
  std::size_t written = 0;
  while (!from.empty() && written * count < to.size()) {
    std::size_t taken = 0;
    std::size_t made = 0;
    const soxr_error_t error =
        soxr_process(resampler, from.data(), from.size() / count, &taken,
                     to.data() + written * count, to.size() / count - written, &made);
    if (error != nullptr) {
      soxr_failed(error);
    }
    if (taken == 0 && made == 0) {
      soxr_failed("it takes no samples and makes none");
    }
    from = from.subspan(taken * count);
    written += made;
  }
  return written;
}

}  // namespace

void resample_frames(std::span<const float> from, int channels, std::int64_t from_rate,
                     std::int64_t to_rate, std::span<float> to, ResampleQuality quality) {
  const UniqueSoxr resampler = open_soxr(channels, from_rate, to_rate, quality);
  const auto count = static_cast<std::size_t>(channels);
  std::size_t written = feed(resampler.get(), from, channels, to);
  const std::vector<float> silence(kSilentFrames * count);
  while (written * count < to.size()) {  // the filter holds back the end until it has more
    written += feed(resampler.get(), silence, channels, to.subspan(written * count));
  }
}

}  // namespace energon
