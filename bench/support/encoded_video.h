// Videos and audio for the decoding benchmarks.

#pragma once

#include <cstdint>
#include <string>

namespace energon::bench {

/// Parameters of encode_video().
struct VideoSpec {
  int width = 640;  ///< even, like the height
  int height = 360;
  int frames = 300;
  int frames_per_second = 30;
  int frames_per_key = 60;
};

/// "libx264", or "mpeg4" if FFmpeg has no H.264 encoder.
std::string video_encoder();

/// An MP4 of a moving picture with edges and noise, without sound. Equal seeds give equal files for
/// one version of FFmpeg. Uses the calling thread only. Throws Error (kInternal).
std::string encode_video(std::uint32_t seed, const VideoSpec& spec);

/// A WAV of 16 bits and one channel.
std::string encode_wav(std::uint32_t seed, std::int64_t samples, int samples_per_second);

}  // namespace energon::bench
