// Decodes any range of audio samples exactly.
//
// Sample 0 is the first one played: samples that the codec or the container declares as priming or
// padding are dropped. Samples are numbered without gaps, even if times in the container have gaps.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "media/av/av_codec.h"
#include "media/av/av_decoder.h"
#include "media/decode_limits.h"

namespace energon {

/// Decoded samples, per channel, in the format of the decoder. Grows while sound is decoded.
struct AudioSamples {
  DType dtype = DType::kUInt8;
  int sample_rate = 0;
  std::int64_t first = 0;  ///< number of the first sample
  std::vector<std::vector<std::byte>> channels;

  /// Samples per channel.
  std::int64_t size() const;

  /// Appends samples [begin, end) of `frame`. Throws Error: kUnsupported if the format, the rate or
  /// the number of channels differs from earlier frames, or the format has no dtype;
  /// kResourceExhausted above limits.max_bytes.
  void append(const AVFrame& frame, std::int64_t begin, std::int64_t end,
              const DecodeLimits& limits);

  /// A tensor (channels, samples).
  Tensor tensor(BufferAllocator& memory) const;
};

/// Where decoding may begin: the sample numbers of packets, for codecs whose decoders can begin at
/// a packet and produce the same samples as from the start.
struct AudioPositions {
  /// Per packet: the number of its first sample, negative within the priming. Empty if decoding
  /// must begin at the start.
  std::vector<std::int64_t> first_samples;
  /// Packets to decode before the packet with the sample.
  std::size_t preroll_packets = 0;
  /// The positions are correct up to a constant, which is found by decoding the first packets.
  bool must_be_checked = false;
  /// Restart for each clip, so that clips do not depend on earlier ones.
  bool always_restarts = false;
};

/// Not thread-safe. `input` and `packets` must outlive it.
class AudioReader {
 public:
  AudioReader(const AvInput& input, const AvStreamPackets& packets, AudioAccess access,
              const DecodeLimits& limits);

  /// Returns samples [begin, end), fewer at the end of the sound, where the result may have no
  /// channels. Throws Error: kCorruptData with the second if they, or earlier sound that they
  /// depend on, are damaged; and like AvCodec and AudioSamples::append().
  AudioSamples read(std::int64_t begin, std::int64_t end);

  /// Samples per channel of the whole sound. The first call decodes the rest of the sound.
  std::int64_t total_samples();

  /// Samples per second.
  int sample_rate();

  /// The time of sample 0, in seconds of the file.
  double start_seconds() const;

 private:
  void check_positions();
  bool read_once(std::int64_t end, AudioSamples& result);
  bool reach(std::int64_t begin);
  void restart(std::size_t packet, std::size_t needed_packet);
  bool next_frame();
  bool place_frame();
  void check_end() const;
  [[noreturn]] void throw_damaged() const;

  const AvInput& input_;
  const AvStreamPackets& packets_;
  const DecodeLimits limits_;
  AudioPositions positions_;

  std::unique_ptr<AvCodec> codec_;
  std::size_t needed_packet_ = 0;  // damage before it does not matter
  bool from_start_ = false;        // codec_ began at the start: samples are counted, not looked up
  // The samples of the frame in codec_. Without a frame, [n, n), where the next frame begins.
  std::int64_t frame_begin_ = 0;
  std::int64_t frame_end_ = 0;
  bool is_placed_ = false;     // frame_end_ is where the next frame begins
  bool is_misplaced_ = false;  // a frame was not at the position of its packet
  std::int64_t total_ = -1;    // -1 means unknown
  int rate_ = 0;               // 0 means unknown
};

}  // namespace energon
