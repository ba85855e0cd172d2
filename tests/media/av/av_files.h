// The small files of this folder and functions of tests for them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "io/bytes.h"
#include "io/hash.h"
#include "media/av/av_decoder.h"

namespace energon::testing {

/// The results of an independent decoder for a file.
struct ExpectedFile {
  std::string name;
  std::int64_t frames = 0;
  /// Number and XXH3-64 of frames: uint8 (3, height, width), RGB.
  std::vector<std::pair<std::int64_t, std::uint64_t>> frame_hashes;
  std::int64_t samples = 0;
  std::int64_t channels = 0;
  int sample_rate = 0;
  std::uint64_t sound_hash = 0;  ///< XXH3-64 of (channels, samples) in the decoder's format
};

/// The content of data/`name` of this folder, or of the file `name` if it is an absolute path.
std::string av_file(const std::string& name);

/// `content` as a file to decode, in memory of exactly its size, so that sanitizers see reads
/// after it.
SharedBytes av_bytes(const std::string& content);

/// One clip.
std::optional<VideoClip> video_clip(AvDecoder& decoder, ClipRange range, VideoUnit unit,
                                    std::optional<FrameSize> size = std::nullopt);
std::optional<AudioClip> audio_clip(AvDecoder& decoder, ClipRange range, AudioUnit unit);

/// XXH3-64 of each frame.
std::vector<std::uint64_t> frame_hashes(const VideoClip& clip);

/// True if `clip` is samples [first, first + its length) of `all`, bit by bit.
bool is_part_of(const AudioClip& clip, const AudioClip& all, std::int64_t first);

/// `numbers` in a fixed order that looks random.
std::vector<std::size_t> scattered(std::size_t count);

}  // namespace energon::testing
