// Decodes any samples of a sound, cut exactly.
//
// Sample 0 is the first that is played: what the codec or the container declares as priming or
// padding is dropped. Samples are numbered without gaps, even if times in the container have some.

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

/// Decoded samples, channel by channel, in the format of the decoder. Grows while sound is decoded.
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

/// Where decoding may begin: sample numbers of packets, where a decoder can begin at a packet and
/// give the same samples as one that began at the start.
struct AudioPositions {
  /// By packet: the number of its first sample, priming not counted, hence negative in it. Empty if
  /// decoding must begin at the start.
  std::vector<std::int64_t> first_samples;
  /// Packets to decode before the one that has the sample.
  std::size_t preroll_packets = 0;
  /// The positions are right up to a constant, which decoding the first packets shows.
  bool must_be_checked = false;
  /// Restart for each clip, so that clips do not depend on those before.
  bool always_restarts = false;
};

/// Not thread-safe. `input` and `packets` must outlive it.
class AudioReader {
 public:
  AudioReader(const AvInput& input, const AvStreamPackets& packets, AudioAccess access,
              const DecodeLimits& limits);

  /// Samples [begin, end), fewer at the end of the sound, where the result may have no channels.
  /// Throws Error: kCorruptData with the second if they, or sound before them that is needed, are
  /// damaged; and what AvCodec and AudioSamples::append() throw.
  AudioSamples read(std::int64_t begin, std::int64_t end);

  /// Samples per channel of the whole sound. The first call decodes the rest of it.
  std::int64_t total_samples();

  /// Samples per second.
  int sample_rate();

  /// When sample 0 is played, in seconds of the file.
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
  bool from_start_ = false;        // codec_ began there: samples are counted, not looked up
  // The samples of the frame in codec_; none: [n, n), where the next frame begins.
  std::int64_t frame_begin_ = 0;
  std::int64_t frame_end_ = 0;
  bool is_placed_ = false;     // frame_end_ is where the next frame begins
  bool is_misplaced_ = false;  // a frame was not where its packet says
  std::int64_t total_ = -1;    // -1: not known
  int rate_ = 0;               // 0: not known
};

}  // namespace energon
