// Converts decoded frames to planar RGB, with libswscale.
//
// The conversion honours the colour matrix and the range that the stream names (without one:
// ITU-R BT.601, limited range), interpolates colour and size bilinearly, and rounds exactly: its
// bytes do not depend on the processor.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "media/av/frame_size.h"
#include "media/decode_limits.h"

struct AVFrame;
struct SwsContext;

namespace energon {

/// Not thread-safe.
class FramePlanes {
 public:
  /// Writes `frame` as uint8 (3, size.height, size.width), RGB, to `to`, which must have exactly
  /// that many bytes. Throws Error: kResourceExhausted above limits.max_pixels; kUnsupported if
  /// libswscale cannot convert the pixel format.
  void write(const AVFrame& frame, FrameSize size, const DecodeLimits& limits,
             std::span<std::byte> to);

 private:
  struct Free {
    void operator()(SwsContext* context) const;
  };

  void prepare(const AVFrame& frame, FrameSize size);

  std::unique_ptr<SwsContext, Free> context_;
  std::vector<int> prepared_for_;
  std::vector<std::byte> scratch_;
};

}  // namespace energon
