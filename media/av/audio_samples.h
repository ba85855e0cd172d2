// Decoded samples, channel by channel, in the format of the decoder.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "media/decode_limits.h"

struct AVFrame;

namespace energon {

/// Grows while sound is decoded.
struct AudioSamples {
  DType dtype = DType::kUInt8;
  int sample_rate = 0;
  std::int64_t first = 0;  ///< number of the first sample
  std::vector<std::vector<std::byte>> channels;

  /// Samples per channel.
  std::int64_t size() const;

  /// Appends samples [begin, end) of `frame`. Throws Error: kUnsupported if the frame has another
  /// format, rate or number of channels than those before it, or a format without a dtype;
  /// kResourceExhausted above limits.max_bytes.
  void append(const AVFrame& frame, std::int64_t begin, std::int64_t end,
              const DecodeLimits& limits);

  /// (channels, samples).
  Tensor tensor(BufferAllocator& memory) const;
};

}  // namespace energon
