#include "media/av/video_reader.h"

#include <algorithm>

#include <fmt/format.h>

namespace energon {

const AVFrame& VideoReader::frame(std::int64_t number) {
  if (position_ == number) {
    return codec_->frame();
  }
  const std::size_t key = key_before(number);
  const bool goes_on = !must_restart_ && position_ < number && key < codec_->next_packet();
  if (goes_on && decode_to(number)) {
    return codec_->frame();
  }
  // A key packet from which the frame cannot be decoded, although it should, was none: begin
  // earlier, in steps that double.
  const auto& keys = order_.key_packets;
  auto index = static_cast<std::size_t>(std::ranges::upper_bound(keys, key) - keys.begin());
  for (std::size_t step = 1;; step *= 2) {
    const std::size_t packet = index == 0 ? 0 : keys[index - 1];
    restart(packet);
    if (decode_to(number)) {
      return codec_->frame();
    }
    if (packet == 0) {
      throw_damaged(number);
    }
    index -= std::min(index, step);
  }
}

// The last key packet that is not behind the frame, neither in decoding nor in presentation.
std::size_t VideoReader::key_before(std::int64_t number) const {
  const auto& keys = order_.key_packets;
  const std::size_t packet = order_.packet_of_frame[static_cast<std::size_t>(number)];
  for (auto key = std::ranges::upper_bound(keys, packet); key != keys.begin();) {
    --key;
    if (order_.frame_of_packet[*key] <= number) {
      return *key;
    }
  }
  return 0;
}

void VideoReader::restart(std::size_t key) {
  position_ = -1;
  must_restart_ = true;
  codec_.reset();  // before the new one: they are large
  codec_ = std::make_unique<AvCodec>(*input_.video()->codecpar, packets_, key,
                                     video_codec_options(limits_, order_.reorder_frames));
  first_number_ = std::max<std::int64_t>(order_.frame_of_packet[key], 0);
  must_restart_ = false;
}

// False if the frame does not come undamaged; then decoding must restart.
bool VideoReader::decode_to(std::int64_t number) {
  position_ = -1;
  must_restart_ = true;  // unless the frame comes
  bool is_clean = true;
  for (;;) {
    const AvCodecResult result = codec_->next();
    if (result == AvCodecResult::kDamage) {
      const std::int64_t damaged = order_.frame_of_packet[codec_->damaged_packet()];
      if (is_damage_of(damaged, number)) {
        damage_ = codec_->damage().message();
        return false;
      }
      is_clean = is_clean && damaged <= number;
      continue;
    }
    const std::int64_t packet = result == AvCodecResult::kFrame ? codec_->frame().pts : -1;
    const bool is_known = packet >= 0 && static_cast<std::size_t>(packet) < packets_.size();
    const std::int64_t given =
        is_known ? order_.frame_of_packet[static_cast<std::size_t>(packet)] : VideoOrder::kNoFrame;
    if (given == number) {
      position_ = number;
      must_restart_ = !is_clean;
      return true;
    }
    if (given > number || result == AvCodecResult::kEnd) {
      damage_ = "the decoder gives no frame for its packet";
      return false;
    }
  }
}

// Damage of frames that are shown before the key frame, or of later ones, is not that of `number`.
bool VideoReader::is_damage_of(std::int64_t damaged, std::int64_t number) const {
  const bool is_leading = damaged != VideoOrder::kNoFrame && damaged < first_number_;
  return damaged <= number && !is_leading;
}

void VideoReader::throw_damaged(std::int64_t number) const {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("the video is damaged at second {:.3f} (frame {} of {}): {}",
                          order_.times_seconds[static_cast<std::size_t>(number)], number,
                          order_.frames(), damage_));
}

}  // namespace energon
