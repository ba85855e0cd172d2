#include "media/av/frame_planes.h"

#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "media/av/av_log.h"

extern "C" {
#include <libavutil/frame.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

namespace energon {
namespace {

// libswscale writes whole vectors: rows begin at multiples of this.
constexpr std::size_t kRowAlignment = 64;

int coefficients_of(AVColorSpace space) {
  switch (space) {
    case AVCOL_SPC_BT709:
      return SWS_CS_ITU709;
    case AVCOL_SPC_FCC:
      return SWS_CS_FCC;
    case AVCOL_SPC_SMPTE240M:
      return SWS_CS_SMPTE240M;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL:
      return SWS_CS_BT2020;
    default:
      return SWS_CS_ITU601;
  }
}

[[noreturn]] void throw_no_conversion(const AVFrame& frame, const AvLogScope& log) {
  const char* name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(frame.format));
  throw Error(ErrorCode::kUnsupported,
              fmt::format("frames of {} x {} pixels {} cannot be converted to RGB{}{}", frame.width,
                          frame.height, name == nullptr ? "of an unknown format" : name,
                          log.last_error().empty() ? "" : ": ", log.last_error()));
}

}  // namespace

void FramePlanes::Free::operator()(SwsContext* context) const {
  const AvLogScope silent;
  sws_freeContext(context);
}

void FramePlanes::prepare(const AVFrame& frame, FrameSize size) {
  std::vector<int> wanted = {frame.width,       frame.height, frame.format, frame.colorspace,
                             frame.color_range, size.width,   size.height};
  if (context_ != nullptr && wanted == prepared_for_) {
    return;
  }
  const AvLogScope log;
  constexpr int kFlags = SWS_BILINEAR | SWS_ACCURATE_RND | SWS_BITEXACT;
  context_.reset(sws_getContext(frame.width, frame.height, static_cast<AVPixelFormat>(frame.format),
                                size.width, size.height, AV_PIX_FMT_GBRP, kFlags, nullptr, nullptr,
                                nullptr));
  if (context_ == nullptr) {
    throw_no_conversion(frame, log);
  }
  const auto format = static_cast<AVPixelFormat>(frame.format);
  const bool is_full = frame.color_range == AVCOL_RANGE_JPEG || format == AV_PIX_FMT_YUVJ420P ||
                       format == AV_PIX_FMT_YUVJ422P || format == AV_PIX_FMT_YUVJ444P ||
                       format == AV_PIX_FMT_YUVJ440P || format == AV_PIX_FMT_YUVJ411P;
  // Refused for formats that have no matrix, such as RGB: nothing is to be set there.
  sws_setColorspaceDetails(context_.get(), sws_getCoefficients(coefficients_of(frame.colorspace)),
                           is_full ? 1 : 0, sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16,
                           1 << 16);
  prepared_for_ = std::move(wanted);
}

void FramePlanes::write(const AVFrame& frame, FrameSize size, const DecodeLimits& limits,
                        std::span<std::byte> to) {
  check_pixels("a frame of the video", static_cast<std::uint64_t>(frame.width),
               static_cast<std::uint64_t>(frame.height), limits);
  prepare(frame, size);
  const auto width = static_cast<std::size_t>(size.width);
  const auto height = static_cast<std::size_t>(size.height);
  const std::size_t row = (width + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  const bool is_direct =
      row == width && reinterpret_cast<std::uintptr_t>(to.data()) % kRowAlignment == 0;
  std::byte* planes = to.data();
  if (!is_direct) {
    scratch_.resize(3 * row * height + 2 * kRowAlignment);
    const auto address = reinterpret_cast<std::uintptr_t>(scratch_.data());
    planes = scratch_.data() + (kRowAlignment - address % kRowAlignment) % kRowAlignment;
  }
  const auto plane = [&](std::size_t index) {
    return reinterpret_cast<std::uint8_t*>(planes + index * row * height);
  };
  const int stride = static_cast<int>(row);
  const std::array<std::uint8_t*, 4> data = {plane(1), plane(2), plane(0), nullptr};  // G, B, R
  const std::array<int, 4> strides = {stride, stride, stride, 0};
  const AvLogScope log;
  const int rows = sws_scale(context_.get(), frame.data, frame.linesize, 0, frame.height,
                             data.data(), strides.data());
  if (rows != size.height) {
    throw_no_conversion(frame, log);
  }
  for (std::size_t i = 0; !is_direct && i < 3 * height; ++i) {
    std::memcpy(to.data() + i * width, planes + i * row, width);
  }
}

}  // namespace energon
