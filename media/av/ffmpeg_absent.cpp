// AvDecoder in a build without FFmpeg: can be constructed, but refuses to read.

#include "io/error.h"
#include "media/av/av_decoder.h"

namespace energon {

class AvDecoder::File {};

namespace {

[[noreturn]] void fail_without_ffmpeg() {
  throw Error(ErrorCode::kUnsupported,
              "this build has no decoder of sound and video (libavformat-dev, libavcodec-dev, "
              "libavutil-dev, libswscale-dev)");
}

}  // namespace

AvDecoder::AvDecoder(SharedBytes file, AvDecoderOptions options)
    : bytes_(std::move(file)), options_(options) {}
AvDecoder::AvDecoder(AvDecoder&&) noexcept = default;
AvDecoder& AvDecoder::operator=(AvDecoder&&) noexcept = default;
AvDecoder::~AvDecoder() = default;

bool AvDecoder::has_video() { fail_without_ffmpeg(); }
bool AvDecoder::has_audio() { fail_without_ffmpeg(); }
AvMetadata AvDecoder::metadata() { fail_without_ffmpeg(); }
std::int64_t AvDecoder::video_frame_count() { fail_without_ffmpeg(); }
double AvDecoder::video_fps() { fail_without_ffmpeg(); }
double AvDecoder::video_duration_seconds() { fail_without_ffmpeg(); }
std::int64_t AvDecoder::audio_sample_count() { fail_without_ffmpeg(); }
int AvDecoder::audio_sample_rate() { fail_without_ffmpeg(); }
double AvDecoder::audio_duration_seconds() { fail_without_ffmpeg(); }

std::vector<std::optional<VideoClip>> AvDecoder::video_clips(std::span<const ClipRange>, VideoUnit,
                                                             std::optional<FrameSize>,
                                                             BufferAllocator&) {
  fail_without_ffmpeg();
}

std::vector<std::optional<AudioClip>> AvDecoder::audio_clips(std::span<const ClipRange>, AudioUnit,
                                                             BufferAllocator&) {
  fail_without_ffmpeg();
}

VideoClip AvDecoder::video_frames_at(std::span<const double>, std::optional<FrameSize>,
                                     BufferAllocator&) {
  fail_without_ffmpeg();
}

VideoClip AvDecoder::video(std::optional<FrameSize>, BufferAllocator&) { fail_without_ffmpeg(); }
AudioClip AvDecoder::audio(BufferAllocator&) { fail_without_ffmpeg(); }
VideoWithAudio AvDecoder::video_with_audio(std::optional<FrameSize>, BufferAllocator&) {
  fail_without_ffmpeg();
}

std::optional<TensorSpec> AvDecoder::probe_clip(const ClipRange&, VideoUnit,
                                                std::optional<FrameSize>) {
  fail_without_ffmpeg();
}

VideoClip AvDecoder::decode_clip_into(const ClipRange&, VideoUnit, std::optional<FrameSize>,
                                      std::span<std::byte>) {
  fail_without_ffmpeg();
}

AvMetadata read_av_metadata(ByteView, const AvMetadataOptions&, const DecodeLimits&) {
  fail_without_ffmpeg();
}

}  // namespace energon
