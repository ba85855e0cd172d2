#include "media/av/audio_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace energon {
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

// Decoders differ in what they give for the first packets: the second frame shows where it begins.
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

// False if the packets do not tell where their samples are.
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
    const AudioPositions positions = std::exchange(positions_, {});  // do not jump: count
    if (!from_start_) {
      codec_.reset();
    }
    reach(std::numeric_limits<std::int64_t>::max());
    positions_ = positions;
  }
  return total_;
}

int AudioReader::sample_rate() {
  const int told = input_.audio()->codecpar->sample_rate;
  // The header of FLV knows only some rates.
  if (told > 0 && input_.container() != AvContainer::kFlv) {
    return told;
  }
  if (rate_ == 0) {
    rate_ = read(0, 1).sample_rate;
  }
  return rate_;
}

double AudioReader::start_seconds() const {
  const AVStream& stream = *input_.audio();
  // The first packet of Vorbis only prepares the second.
  const std::size_t packet = stream.codecpar->codec_id == AV_CODEC_ID_VORBIS ? 1 : 0;
  if (packet >= packets_.size() || packets_[packet].pts == AV_NOPTS_VALUE) {
    return 0;
  }
  const double start = av_seconds(packets_[packet].pts, stream.time_base) - input_.zero_seconds() +
                       static_cast<double>(audio_priming(input_, packets_)) /
                           std::max(stream.codecpar->sample_rate, 1);
  // Less than the precision of the time base is none.
  return std::abs(start) <= std::max(av_q2d(stream.time_base), 1e-6) ? 0 : start;
}

// Decodes up to the frame that has sample `begin`; false if the sound ends before it.
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

// False at the end, and if a frame is not where its packet says.
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
  const std::int64_t told = has_packet ? first[static_cast<std::size_t>(frame.pts)] : frame_end_;
  if (is_placed_ && !from_start_ && has_packet && told != frame_end_) {
    is_misplaced_ = true;
    return false;
  }
  frame_begin_ = is_placed_ ? frame_end_ : told;
  frame_end_ = frame_begin_ + std::max(frame.nb_samples, 0);
  is_placed_ = is_placed_ || has_packet;
  return true;
}

// FLAC notes the number of samples in its header: 36 bits, 0 if the writer did not know.
void AudioReader::check_end() const {
  const AVCodecParameters& parameters = *input_.audio()->codecpar;
  if (input_.container() != AvContainer::kFlac || parameters.extradata_size < 18) {
    return;
  }
  const ByteView header = std::as_bytes(std::span(parameters.extradata, 18));
  const auto told = static_cast<std::int64_t>(big_endian_at(header, 13, 5) & 0xFFFFFFFFF);
  if (told > total_) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the sound has {} samples, its header says {}: the file is truncated",
                            total_, told));
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
