// What a file of sound or video says about itself.

#pragma once

#include <cstdint>
#include <optional>

#include "io/bytes.h"
#include "media/decode_limits.h"

namespace energon {

/// Absent: there is no such stream, or the file does not tell.
struct AvMetadata {
  /// As the container says or, with count_frames, when the last frame ends.
  std::optional<double> video_duration_seconds = std::nullopt;
  std::optional<std::int64_t> video_frames = std::nullopt;  ///< only with count_frames
  std::optional<double> video_fps = std::nullopt;           ///< average
  /// Pixels of a frame as it is coded and decoded: a rotation that the container asks for is not
  /// applied.
  std::optional<int> width = std::nullopt;
  std::optional<int> height = std::nullopt;
  /// As the container says or, with count_samples, exactly.
  std::optional<double> audio_duration_seconds = std::nullopt;
  std::optional<int> audio_channels = std::nullopt;
  std::optional<int> audio_sample_rate = std::nullopt;       ///< samples per second
  std::optional<std::int64_t> audio_samples = std::nullopt;  ///< per channel; with count_samples
};

/// What to find out exactly, which costs time.
struct AvMetadataOptions {
  bool count_frames = false;   ///< reads all packets; decodes the video where they do not tell
  bool count_samples = false;  ///< decodes the sound
};

/// Throws Error as AvDecoder (av_decoder.h). Thread-safe.
AvMetadata read_av_metadata(ByteView file, const AvMetadataOptions& options = {},
                            const DecodeLimits& limits = {});

}  // namespace energon
