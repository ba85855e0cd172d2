// Decodes any frame of a video, exactly the same in every order of access.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "media/av/video_order.h"

namespace energon {

/// Not thread-safe. `input`, `packets` and `order` must outlive it.
class VideoReader {
 public:
  VideoReader(const AvInput& input, const AvStreamPackets& packets, const VideoOrder& order,
              const DecodeLimits& limits)
      : input_(input), packets_(packets), order_(order), limits_(limits) {}

  /// Frame `number` of the order; valid until the next call. Decodes on from the last frame unless
  /// a key frame is nearer. Throws Error: kCorruptData with the second if the frame is damaged or a
  /// frame that it depends on is; and what AvCodec throws.
  const AVFrame& frame(std::int64_t number);

 private:
  std::size_t key_before(std::int64_t number) const;
  void restart(std::size_t key);
  bool decode_to(std::int64_t number);
  bool is_damage_of(std::int64_t damaged, std::int64_t number) const;
  [[noreturn]] void throw_damaged(std::int64_t number) const;

  const AvInput& input_;
  const AvStreamPackets& packets_;
  const VideoOrder& order_;
  const DecodeLimits limits_;

  std::unique_ptr<AvCodec> codec_;
  std::int64_t first_number_ = 0;  // of the frames that decoding since the restart must give
  std::int64_t position_ = -1;     // of the frame in codec_; -1 if there is none
  bool must_restart_ = true;       // damage was met behind position_
  std::string damage_;             // the last one
};

}  // namespace energon
