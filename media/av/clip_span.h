// The frames and samples that the range of a clip stands for.

#pragma once

#include <cstdint>
#include <optional>

#include "media/av/clip_range.h"
#include "media/av/video_order.h"

namespace energon {

/// [first, first + count).
struct ClipSpan {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// The frames that are shown at some time of the range, or the frames of these numbers; at least
/// one. A range before the first frame gives the first frame. Empty if the range begins behind the
/// end of the video. Throws Error (kInvalidArgument) if `begin` is negative, `end` is less, a
/// number is not finite where it must be, or a frame number is not whole.
std::optional<ClipSpan> clip_frames(const ClipRange& range, VideoUnit unit,
                                    const VideoOrder& order);

/// Of seconds: from the sample nearest to `begin` up to the one nearest to `end`, that one
/// excluded, so that (end - begin) * rate samples are given and clips that touch share none; at
/// least one. Of samples: those numbers, the last included. `start_seconds` is when sample 0 is
/// played. May reach past the end of the sound; empty if it ends before sample 0. Throws as
/// clip_frames().
std::optional<ClipSpan> clip_samples(const ClipRange& range, AudioUnit unit, int sample_rate,
                                     double start_seconds);

}  // namespace energon
