#include "tests/media/av/av_files.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>

namespace energon::testing {

std::string av_file(const std::string& name) {
  const std::string folder = std::string(ENERGON_SOURCE_DIR) + "/tests/media/av/data/";
  std::ifstream file(name.starts_with("/") ? name : folder + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

SharedBytes av_bytes(const std::string& content) {
  const std::shared_ptr<char[]> copy(new char[content.size()]);
  if (!content.empty()) {
    std::memcpy(copy.get(), content.data(), content.size());
  }
  return {std::as_bytes(std::span(copy.get(), content.size())), copy};
}

std::optional<VideoClip> video_clip(AvDecoder& decoder, ClipRange range, VideoUnit unit,
                                    std::optional<FrameSize> size) {
  HeapBufferPool memory;
  return std::move(decoder.video_clips({&range, 1}, unit, size, memory).at(0));
}

std::optional<AudioClip> audio_clip(AvDecoder& decoder, ClipRange range, AudioUnit unit) {
  HeapBufferPool memory;
  return std::move(decoder.audio_clips({&range, 1}, unit, memory).at(0));
}

std::vector<std::uint64_t> frame_hashes(const VideoClip& clip) {
  const auto frames = static_cast<std::size_t>(clip.frames.shape.at(0));
  const std::size_t bytes = clip.frames.data.size() / frames;
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < frames; ++i) {
    hashes.push_back(xxh3_64(clip.frames.data.view.subspan(i * bytes, bytes)));
  }
  return hashes;
}

bool is_part_of(const AudioClip& clip, const AudioClip& all, std::int64_t first) {
  const std::size_t element = size_of(all.samples.dtype);
  const auto row = static_cast<std::size_t>(clip.samples.shape.at(1)) * element;
  const auto whole_row = static_cast<std::size_t>(all.samples.shape.at(1)) * element;
  bool is_part = clip.samples.dtype == all.samples.dtype &&
                 clip.samples.shape.at(0) == all.samples.shape.at(0) &&
                 clip.sample_rate == all.sample_rate;
  for (std::int64_t i = 0; is_part && i < all.samples.shape.at(0); ++i) {
    const auto channel = static_cast<std::size_t>(i);
    const auto at = channel * whole_row + static_cast<std::size_t>(first) * element;
    is_part = at + row <= all.samples.data.size() &&
              std::memcmp(clip.samples.data.view.data() + channel * row,
                          all.samples.data.view.data() + at, row) == 0;
  }
  return is_part;
}

std::vector<std::size_t> scattered(std::size_t count) {
  std::vector<std::size_t> numbers;
  std::size_t step = count / 2 + 1;
  while (std::gcd(step, count) != 1) {
    ++step;
  }
  for (std::size_t i = 0; i < count; ++i) {
    numbers.push_back((i + 1) * step % count);
  }
  return numbers;
}

}  // namespace energon::testing
