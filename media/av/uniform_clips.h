// Clips and frames that are spread evenly over a video. The places are Energon's.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "media/av/av_decoder.h"

namespace energon {

struct UniformClipsOptions {
  std::optional<FrameSize> size = std::nullopt;  ///< of the frames; absent: as coded
  bool with_audio = false;                       ///< of the same seconds, if the file has sound
};

struct UniformClips {
  std::vector<VideoClip> video;
  /// As many as `video`, or none. Empty elements: the sound ends before the clip.
  std::vector<std::optional<AudioClip>> audio;
};

/// `num_clips` clips of `clip_seconds`, the first at the start and the last at the end of the
/// video; one clip is at the start. A video that is shorter is given whole, each time. 0 seconds:
/// single frames, the first half a frame after the start and the last half a frame before the end.
/// A clip that would begin where the video ends has the last frame.
/// Throws Error: kInvalidArgument for a negative duration or less than one clip; and what AvDecoder
/// throws.
UniformClips clips_uniform(AvDecoder& decoder, double clip_seconds, std::int64_t num_clips,
                           const UniformClipsOptions& options, BufferAllocator& memory);

/// `num_frames` single frames at the places of clips of 0 seconds, as one clip. Throws as
/// clips_uniform().
VideoClip frames_uniform(AvDecoder& decoder, std::int64_t num_frames, std::optional<FrameSize> size,
                         BufferAllocator& memory);

}  // namespace energon
