#include "media/av/audio_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"

extern "C" {
#include <libavcodec/vorbis_parser.h>
#include <libavutil/frame.h>
#include <libavutil/samplefmt.h>
}

namespace energon {

// --- Samples ---

namespace {

DType sample_dtype(AVSampleFormat format) {
  switch (av_get_packed_sample_fmt(format)) {
    case AV_SAMPLE_FMT_U8:
      return DType::kUInt8;
    case AV_SAMPLE_FMT_S16:
      return DType::kInt16;
    case AV_SAMPLE_FMT_S32:
      return DType::kInt32;
    case AV_SAMPLE_FMT_S64:
      return DType::kInt64;
    case AV_SAMPLE_FMT_FLT:
      return DType::kFloat32;
    case AV_SAMPLE_FMT_DBL:
      return DType::kFloat64;
    default:
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("sample format {} has no dtype", static_cast<int>(format)));
  }
}

// Appends samples [begin, end) of one of `step` interleaved channels.
void append_interleaved(const std::uint8_t* from, std::size_t element, std::size_t step,
                        std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(to + i * element, from + i * element * step, element);
  }
}

}  // namespace

std::int64_t AudioSamples::size() const {
  return channels.empty() ? 0 : static_cast<std::int64_t>(channels.front().size() / size_of(dtype));
}

void AudioSamples::append(const AVFrame& frame, std::int64_t begin, std::int64_t end,
                          const DecodeLimits& limits) {
  const auto format = static_cast<AVSampleFormat>(frame.format);
  const DType frame_dtype = sample_dtype(format);
  const auto frame_channels = static_cast<std::size_t>(std::max(frame.ch_layout.nb_channels, 0));
  if (channels.empty()) {
    dtype = frame_dtype;
    sample_rate = frame.sample_rate;
    channels.resize(frame_channels);
  }
  if (channels.size() != frame_channels || dtype != frame_dtype ||
      sample_rate != frame.sample_rate) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("the sound changes from {} channels of {} at {} Hz to {} channels of {} "
                    "at {} Hz after sample {}",
                    channels.size(), to_string(dtype), sample_rate, frame_channels,
                    to_string(frame_dtype), frame.sample_rate, first + size()));
  }
  const std::size_t element = size_of(dtype);
  const auto count = static_cast<std::size_t>(end - begin);
  const bool is_planar = av_sample_fmt_is_planar(format) != 0;
  const std::size_t old_bytes = channels.empty() ? 0 : channels.front().size();
  check_decoded_bytes("the sound", (old_bytes + count * element) * frame_channels, limits);
  for (std::size_t i = 0; i < frame_channels; ++i) {
    const std::size_t step = is_planar ? 1 : frame_channels;
    const std::uint8_t* plane = is_planar ? frame.extended_data[i] : frame.extended_data[0];
    const std::uint8_t* from =
        plane + (static_cast<std::size_t>(begin) * step + (is_planar ? 0 : i)) * element;
    channels[i].resize(old_bytes + count * element);
    std::byte* to = channels[i].data() + old_bytes;
    if (step == 1) {
      std::memcpy(to, from, count * element);
    } else {
      append_interleaved(from, element, step, count, to);
    }
  }
}

Tensor AudioSamples::tensor(BufferAllocator& memory) const {
  NewTensor result =
      new_tensor(dtype, {static_cast<std::int64_t>(channels.size()), size()}, memory);
  std::byte* to = result.bytes.data();
  for (const std::vector<std::byte>& channel : channels) {
    if (!channel.empty()) {
      std::memcpy(to, channel.data(), channel.size());
      to += channel.size();
    }
  }
  return std::move(result.tensor);
}

// --- Samples of packets ---

namespace {

/// True for PCM, whose packets contain plain samples.
constexpr bool is_pcm(AVCodecID codec) {
  return codec >= AV_CODEC_ID_FIRST_AUDIO && codec < AV_CODEC_ID_ADPCM_IMA_QT;
}

struct FreeVorbis {
  void operator()(AVVorbisParseContext* parser) const { av_vorbis_parse_free(&parser); }
};

// From the mode in the first byte of each packet and the setup header.
std::vector<std::int64_t> vorbis_samples(const AVCodecParameters& parameters,
                                         const AvStreamPackets& packets) {
  const AvLogScope silent;
  const std::unique_ptr<AVVorbisParseContext, FreeVorbis> parser(
      av_vorbis_parse_init(parameters.extradata, parameters.extradata_size));
  std::vector<std::int64_t> samples;
  for (std::size_t i = 0; parser && i < packets.size(); ++i) {
    const ByteView data = packets[i].data;
    samples.push_back(av_vorbis_parse_frame(parser.get(),
                                            reinterpret_cast<const std::uint8_t*>(data.data()),
                                            static_cast<int>(data.size())));
  }
  return samples;
}

// RFC 6716, 3.1: the first byte contains mode, duration and number of frames. At 48 kHz.
std::int64_t opus_samples(ByteView data) {
  constexpr std::array<std::int64_t, 4> kSilk = {480, 960, 1920, 2880};
  constexpr std::array<std::int64_t, 4> kCelt = {120, 240, 480, 960};
  const auto first = data.empty() ? 0U : std::to_integer<unsigned>(data[0]);
  const unsigned mode = first >> 3;
  const std::int64_t frame = mode < 12   ? kSilk[mode % 4]
                             : mode < 16 ? kSilk[mode % 2]
                                         : kCelt[mode % 4];
  switch (first & 3U) {
    case 0:
      return frame;
    case 3:
      return data.size() < 2 ? 0 : frame * (std::to_integer<unsigned>(data[1]) & 0x3FU);
    default:
      return 2 * frame;
  }
}

// True if times are sample numbers without gaps.
bool are_times_samples(const AVStream& stream, const AvStreamPackets& packets) {
  if (stream.time_base.num != 1 || stream.time_base.den != stream.codecpar->sample_rate) {
    return false;
  }
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const AvStoredPacket& packet = packets[i];
    const bool is_told =
        packet.pts != AV_NOPTS_VALUE && packet.duration > 0 && packet.duration < INT32_MAX;
    std::int64_t end = 0;  // of the previous packet
    const bool follows =
        i == 0 || (!__builtin_add_overflow(packets[i - 1].pts, packets[i - 1].duration, &end) &&
                   end == packet.pts);
    if (!is_told || !follows) {
      return false;
    }
  }
  return true;
}

/// The number of samples of each packet, if it is known without decoding, else empty. For the first
/// packet, the number as if a packet preceded it.
std::vector<std::int64_t> audio_packet_samples(const AVStream& stream,
                                               const AvStreamPackets& packets) {
  AVCodecParameters& parameters = *stream.codecpar;
  const AVCodecID codec = parameters.codec_id;
  std::vector<std::int64_t> samples;
  if (codec == AV_CODEC_ID_VORBIS) {
    samples = vorbis_samples(parameters, packets);
  } else {
    const bool by_frames = is_pcm(codec) || codec == AV_CODEC_ID_MP2 || codec == AV_CODEC_ID_MP3;
    const bool by_time = !by_frames && are_times_samples(stream, packets);
    for (const AvStoredPacket& packet : packets.packets) {
      const int size = static_cast<int>(packet.data.size());
      samples.push_back(by_frames ? av_get_audio_frame_duration2(&parameters, size)
                        : codec == AV_CODEC_ID_OPUS ? opus_samples(packet.data)
                        : by_time                   ? packet.duration
                        : codec == AV_CODEC_ID_AAC  ? parameters.frame_size
                                                    : 0);
    }
  }
  if (std::ranges::any_of(samples, [](std::int64_t count) { return count <= 0; })) {
    samples.clear();
  }
  return samples;
}

}  // namespace

// --- Positions of packets ---

namespace {

// Packets before a sample that can affect it, for decoders with finite memory.
std::optional<std::size_t> finite_preroll(AVCodecID codec) {
  if (is_pcm(codec)) {
    return 0;
  }
  switch (codec) {
    case AV_CODEC_ID_FLAC:
    case AV_CODEC_ID_ALAC:
      return 0;
    case AV_CODEC_ID_VORBIS:
      return 3;
    case AV_CODEC_ID_MP2:
    case AV_CODEC_ID_MP3:
      return 40;  // the bit reservoir reaches back 511 bytes; a frame has at least 24
    default:
      return std::nullopt;
  }
}

// Opus converges in 80 ms, AAC (with its extensions) in a few packets of 20 ms and more.
constexpr std::size_t kFastPreroll = 12;

// True if packets are hidden, and samples dropped, only at the start and the end.
bool is_played_in_one_piece(const AvStreamPackets& packets) {
  bool was_played = false;
  bool has_ended = false;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const AvStoredPacket& packet = packets[i];
    const bool skips = packet.packet && av_skipped_samples(*packet.packet) > 0;
    if ((skips && was_played) || (has_ended && !packet.is_hidden())) {
      return false;
    }
    has_ended = was_played && packet.is_hidden();
    was_played = was_played || !packet.is_hidden();
  }
  return was_played;
}

/// Samples at the start that are decoded but not played.
std::int64_t audio_priming(const AvInput& input, const AvStreamPackets& packets) {
  const bool is_declared = packets.size() > 0 && packets[0].packet;
  const std::int64_t declared = is_declared ? av_skipped_samples(*packets[0].packet) : 0;
  const AVCodecParameters& parameters = *input.audio()->codecpar;
  // The Opus decoder reads the number from the header of the stream.
  return declared == 0 && parameters.codec_id == AV_CODEC_ID_OPUS ? parameters.initial_padding
                                                                  : declared;
}

AudioPositions audio_positions(const AvInput& input, const AvStreamPackets& packets,
                               AudioAccess access) {
  const AVStream& stream = *input.audio();
  const std::optional<std::size_t> preroll = finite_preroll(stream.codecpar->codec_id);
  AudioPositions result;
  if ((!preroll && access == AudioAccess::kExact) || !is_played_in_one_piece(packets)) {
    return result;
  }
  std::int64_t position = -audio_priming(input, packets);
  for (const std::int64_t samples : audio_packet_samples(stream, packets)) {
    result.first_samples.push_back(position);
    position += samples;
  }
  result.preroll_packets = preroll.value_or(kFastPreroll);
  result.must_be_checked = result.preroll_packets > 0;
  result.always_restarts = !preroll && !result.first_samples.empty();
  return result;
}

}  // namespace

// --- Decoding ---

namespace {

AvCodecOptions audio_codec_options(const DecodeLimits& limits) {
  return {.limits = limits,
          .reorder_frames = 0,
          .error_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER | AV_EF_EXPLODE};
}

}  // namespace

AudioReader::AudioReader(const AvInput& input, const AvStreamPackets& packets, AudioAccess access,
                         const DecodeLimits& limits)
    : input_(input),
      packets_(packets),
      limits_(limits),
      positions_(audio_positions(input, packets, access)) {}

AudioSamples AudioReader::read(std::int64_t begin, std::int64_t end) {
  AudioSamples result;
  result.first = begin;
  if (positions_.must_be_checked) {
    check_positions();
  }
  if (positions_.always_restarts) {
    codec_.reset();
  }
  if (!read_once(end, result)) {
    positions_ = {};  // decode from the start from now on
    codec_.reset();
    result.channels.clear();
    read_once(end, result);
  }
  return result;
}

// Decoders differ in the samples that they return for the first packets, so the second frame is
// used to find the constant.
void AudioReader::check_positions() {
  std::vector<std::int64_t>& first = positions_.first_samples;
  positions_.must_be_checked = false;
  AvCodec codec(*input_.audio()->codecpar, packets_, 0, audio_codec_options(limits_));
  std::int64_t samples = 0;
  for (int frames = 0; frames < 2; ++frames) {
    if (codec.next() != AvCodecResult::kFrame || codec.frame().pts < 0 ||
        static_cast<std::size_t>(codec.frame().pts) >= first.size()) {
      positions_ = {};  // too short, or damaged
      return;
    }
    if (frames == 0) {
      samples = codec.frame().nb_samples;
    }
  }
  const std::int64_t offset = samples - first[static_cast<std::size_t>(codec.frame().pts)];
  for (std::int64_t& position : first) {
    position += offset;
  }
}

// False if the positions of samples cannot be found from the packets.
bool AudioReader::read_once(std::int64_t end, AudioSamples& result) {
  const std::int64_t begin = result.first;
  for (bool has_frame = reach(begin); has_frame; has_frame = frame_end_ < end && next_frame()) {
    const std::int64_t from = std::max(begin, frame_begin_);
    const std::int64_t to = std::min(end, frame_end_);
    if (from < to) {
      result.append(codec_->frame(), from - frame_begin_, to - frame_begin_, limits_);
    }
  }
  return !is_misplaced_;
}

std::int64_t AudioReader::total_samples() {
  if (total_ < 0) {
    const AudioPositions positions = std::exchange(positions_, {});  // count instead of seeking
    if (!from_start_) {
      codec_.reset();
    }
    reach(std::numeric_limits<std::int64_t>::max());
    positions_ = positions;
  }
  return total_;
}

int AudioReader::sample_rate() {
  const int declared = input_.audio()->codecpar->sample_rate;
  // The FLV header can express only some rates.
  if (declared > 0 && input_.container() != AvContainer::kFlv) {
    return declared;
  }
  if (rate_ == 0) {
    rate_ = read(0, 1).sample_rate;
  }
  return rate_;
}

double AudioReader::start_seconds() const {
  const AVStream& stream = *input_.audio();
  // The first Vorbis packet only prepares the second.
  const std::size_t packet = stream.codecpar->codec_id == AV_CODEC_ID_VORBIS ? 1 : 0;
  if (packet >= packets_.size() || packets_[packet].pts == AV_NOPTS_VALUE) {
    return 0;
  }
  const double start = av_seconds(packets_[packet].pts, stream.time_base) - input_.zero_seconds() +
                       static_cast<double>(audio_priming(input_, packets_)) /
                           std::max(stream.codecpar->sample_rate, 1);
  // An offset below the precision of the time base counts as 0.
  return std::abs(start) <= std::max(av_q2d(stream.time_base), 1e-6) ? 0 : start;
}

// Decodes up to the frame with sample `begin`; false if the sound ends before it.
bool AudioReader::reach(std::int64_t begin) {
  const std::vector<std::int64_t>& first = positions_.first_samples;
  const auto found = std::ranges::upper_bound(first, begin);
  const std::size_t target =
      found == first.begin() ? 0 : static_cast<std::size_t>(found - first.begin()) - 1;
  const std::size_t start = target - std::min(target, positions_.preroll_packets);
  const bool goes_on = codec_ && is_placed_ && frame_begin_ <= begin &&
                       (first.empty() || start <= codec_->next_packet());
  if (!goes_on) {
    restart(start, target);
  }
  while (!is_placed_ || frame_end_ <= begin) {
    if (!next_frame()) {
      return false;
    }
  }
  return true;
}

void AudioReader::restart(std::size_t packet, std::size_t needed_packet) {
  codec_.reset();
  codec_ = std::make_unique<AvCodec>(*input_.audio()->codecpar, packets_, packet,
                                     audio_codec_options(limits_));
  needed_packet_ = needed_packet == 0 ? 0 : needed_packet - 1;  // windows overlap by one packet
  frame_begin_ = 0;
  frame_end_ = 0;
  from_start_ = packet == 0;
  is_placed_ = from_start_;
  is_misplaced_ = false;
}

// False at the end, and if a frame is not at the position of its packet.
bool AudioReader::next_frame() {
  for (;;) {
    frame_begin_ = frame_end_;                                 // the frame is gone
    const bool was_placed = std::exchange(is_placed_, false);  // if next() throws
    const AvCodecResult result = codec_->next();
    is_placed_ = was_placed;
    if (result == AvCodecResult::kFrame) {
      return place_frame();
    }
    if (result == AvCodecResult::kEnd) {
      if (is_placed_) {
        total_ = frame_end_;
        check_end();
      }
      return false;
    }
    is_placed_ = false;
    if (codec_->damaged_packet() >= needed_packet_) {
      throw_damaged();
    }
  }
}

bool AudioReader::place_frame() {
  const AVFrame& frame = codec_->frame();
  const std::vector<std::int64_t>& first = positions_.first_samples;
  const bool has_packet = frame.pts >= 0 && static_cast<std::size_t>(frame.pts) < first.size();
  const std::int64_t declared =
      has_packet ? first[static_cast<std::size_t>(frame.pts)] : frame_end_;
  if (is_placed_ && !from_start_ && has_packet && declared != frame_end_) {
    is_misplaced_ = true;
    return false;
  }
  frame_begin_ = is_placed_ ? frame_end_ : declared;
  frame_end_ = frame_begin_ + std::max(frame.nb_samples, 0);
  is_placed_ = is_placed_ || has_packet;
  return true;
}

// The FLAC header contains the number of samples in 36 bits, or 0 if the writer did not know it.
void AudioReader::check_end() const {
  const AVCodecParameters& parameters = *input_.audio()->codecpar;
  if (input_.container() != AvContainer::kFlac || parameters.extradata_size < 18) {
    return;
  }
  const ByteView header = std::as_bytes(std::span(parameters.extradata, 18));
  const auto declared = static_cast<std::int64_t>(big_endian_at(header, 13, 5) & 0xFFFFFFFFF);
  if (declared > total_) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the sound has {} samples, but {} in its header: the file is truncated",
                            total_, declared));
  }
}

void AudioReader::throw_damaged() const {
  const std::size_t packet = codec_->damaged_packet();
  const AvStoredPacket& stored = packets_[packet];
  const double second =
      stored.pts == AV_NOPTS_VALUE
          ? 0
          : av_seconds(stored.pts, input_.audio()->time_base) - input_.zero_seconds();
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("the sound is damaged at second {:.3f} (packet {} of {}): {}",
                  std::max(second, 0.0), packet, packets_.size(), codec_->damage().message()));
}

}  // namespace energon
