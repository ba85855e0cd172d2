// Decodes clips of video and sound, exact to the frame and to the sample.
//
// Capabilities match Energon's AVDecoder. Frame 0 is the first frame shown, in presentation order,
// whatever the container and the coding order. Sample 0 is the first sample played, after the
// priming that the file declares. The result of a call depends on the file and the arguments, not
// on earlier calls.
//
// Second 0 is the start of the file: the start of its first stream, or 0 of the container's clock
// if that is later. Containers: AVI, Matroska and WebM, MP4 and MOV, WAV, FLAC, MP3, Ogg, AAC
// (ADTS), FLV. Codecs: those of FFmpeg.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/tensor_decoder.h"

namespace energon {

/// How to seek in sound.
enum class AudioAccess : std::uint8_t {
  /// Bit-exact: every clip equals that part of the whole decoded sound. Codecs whose decoders keep
  /// state indefinitely (AAC, Opus) are decoded from the start of the file, or from the last clip.
  kExact,
  /// AAC and Opus, too, are decoded from shortly before the clip. The position is exact, but noise
  /// that the decoder generates differs slightly. The samples depend on the clip alone, not on
  /// earlier clips.
  kFast,
};

struct AvDecoderOptions {
  /// max_pixels applies to a frame, both coded and resized; max_bytes to each clip.
  DecodeLimits limits = {};
  AudioAccess audio_access = AudioAccess::kExact;
  /// Resamples clips to this many samples per second, as float32 with 1 for full scale. Each clip
  /// is cut first: numbers of samples, and metadata, are those of the file. Unset leaves the rate
  /// and the format of the file. Clips throw Error (kInvalidArgument) unless it is 1 to 768,000.
  std::optional<int> audio_sample_rate = std::nullopt;
};

enum class VideoUnit : std::uint8_t { kSeconds, kFrames };
enum class AudioUnit : std::uint8_t { kSeconds, kSamples };

/// The range of a clip as in Energon: from `begin` to `end`, both included. Frames and samples are
/// whole numbers from 0. `end` may be infinite.
struct ClipRange {
  double begin = 0;
  double end = 0;
};

/// The size of video frames in pixels.
struct FrameSize {
  int width = 0;
  int height = 0;

  bool operator==(const FrameSize&) const = default;
};

/// Consecutive frames.
struct VideoClip {
  Tensor frames;                      ///< uint8 (frames, 3, height, width), RGB
  std::vector<double> times_seconds;  ///< presentation time of each frame
  double begin_seconds = 0;           ///< presentation time of the first frame
  double end_seconds = 0;             ///< end of the last frame
};

struct AudioClip {
  /// (channels, samples) in the decoder's format: uint8, int16, int32 (24-bit sound in the upper
  /// bits), int64, float32 or float64. Resampled: float32.
  Tensor samples;
  int sample_rate = 0;       ///< samples per second
  double begin_seconds = 0;  ///< time of the first sample
  double end_seconds = 0;    ///< end of the last sample
};

/// The video and sound of a file; nullopt if the file has none.
struct VideoWithAudio {
  std::optional<VideoClip> video = std::nullopt;
  std::optional<AudioClip> audio = std::nullopt;
};

/// Metadata of a file with sound or video. nullopt means that there is no such stream, or that the
/// file does not contain the value.
struct AvMetadata {
  /// As the container declares it or, with count_frames, the end of the last frame.
  std::optional<double> video_duration_seconds = std::nullopt;
  std::optional<std::int64_t> video_frames = std::nullopt;  ///< only with count_frames
  std::optional<double> video_fps = std::nullopt;           ///< average
  /// Pixels of a coded and decoded frame. A rotation that the container declares is not applied.
  std::optional<int> width = std::nullopt;
  std::optional<int> height = std::nullopt;
  /// As the container declares it or, with count_samples, exactly.
  std::optional<double> audio_duration_seconds = std::nullopt;
  std::optional<int> audio_channels = std::nullopt;
  std::optional<int> audio_sample_rate = std::nullopt;       ///< samples per second
  std::optional<std::int64_t> audio_samples = std::nullopt;  ///< per channel; with count_samples
};

/// Values to determine exactly, which takes longer.
struct AvMetadataOptions {
  bool count_frames = false;   ///< reads all packets; decodes the video if packets are not enough
  bool count_samples = false;  ///< decodes the sound
};

/// The first call opens the file; the first call that needs frames or samples reads all packets.
/// Keeps its position, so that clips in ascending order are decoded without seeking back. Not
/// thread-safe; uses only the calling thread.
///
/// All functions throw Error: kCorruptData, with the second, for a damaged or truncated file;
/// kUnsupported for unsupported files, codecs and formats; kResourceExhausted above a limit;
/// kInvalidArgument for an invalid range, and if the file has no video or sound. Damage never
/// shortens a clip. Clips that do not depend on a damaged packet can still be decoded; from a
/// damaged container, none can. The decoder remains usable after an error.
class AvDecoder {
 public:
  /// Shares `file`. Does not fail.
  explicit AvDecoder(SharedBytes file, AvDecoderOptions options = {});
  AvDecoder(AvDecoder&&) noexcept;
  AvDecoder& operator=(AvDecoder&&) noexcept;
  ~AvDecoder();

  bool has_video();
  bool has_audio();
  /// Metadata from the header; for FLV, also from the first frame and sample.
  AvMetadata metadata();

  std::int64_t video_frame_count();
  /// Average frames per second; frames by duration if the header does not contain it.
  double video_fps();
  /// The end of the last frame.
  double video_duration_seconds();
  /// Samples per channel. Decodes all the sound.
  std::int64_t audio_sample_count();
  int audio_sample_rate();
  /// The end of the last sample. Decodes all the sound.
  double audio_duration_seconds();

  /// Returns a clip for each range (ClipRange), in the order of the ranges, which may be any;
  /// nullopt for a range that begins after the end. Frames are resized to `size`; if unset, all
  /// frames of a clip must have one size.
  std::vector<std::optional<VideoClip>> video_clips(std::span<const ClipRange> ranges,
                                                    VideoUnit unit, std::optional<FrameSize> size,
                                                    BufferAllocator& memory);
  /// As video_clips(). A clip ends early if the sound does.
  std::vector<std::optional<AudioClip>> audio_clips(std::span<const ClipRange> ranges,
                                                    AudioUnit unit, BufferAllocator& memory);
  /// Returns the frames shown at these seconds, as one clip in that order. Seconds before the first
  /// or after the last frame select that frame.
  VideoClip video_frames_at(std::span<const double> seconds, std::optional<FrameSize> size,
                            BufferAllocator& memory);

  /// All frames.
  VideoClip video(std::optional<FrameSize> size, BufferAllocator& memory);
  /// All samples.
  AudioClip audio(BufferAllocator& memory);
  VideoWithAudio video_with_audio(std::optional<FrameSize> size, BufferAllocator& memory);

  /// The tensor that decode_clip_into() writes; nullopt for a range that begins after the end.
  /// Decodes the first frame if `size` is unset.
  std::optional<TensorSpec> probe_clip(const ClipRange& range, VideoUnit unit,
                                       std::optional<FrameSize> size);
  /// Writes the frames of one clip into memory of the caller, which must have exactly the bytes of
  /// probe_clip(), else throws Error (kInvalidArgument). The result has no tensor. After an error
  /// the content of `to` is unspecified.
  VideoClip decode_clip_into(const ClipRange& range, VideoUnit unit, std::optional<FrameSize> size,
                             std::span<std::byte> to);

 private:
  class File;
  File& file();
  static void add_decoded(File& file, AvMetadata& metadata);

  SharedBytes bytes_;
  AvDecoderOptions options_;
  std::unique_ptr<File> file_;  // null before the first call
};

/// Throws Error as AvDecoder. Thread-safe.
AvMetadata read_av_metadata(ByteView file, const AvMetadataOptions& options = {},
                            const DecodeLimits& limits = {});

// --- Clips and frames spread evenly over a video, at the same places as in Energon ---

struct UniformClipsOptions {
  std::optional<FrameSize> size = std::nullopt;  ///< of the frames; unset means as coded
  bool with_audio = false;                       ///< also the sound of the clips, if there is any
};

struct UniformClips {
  std::vector<VideoClip> video;
  /// One per video clip, or empty. nullopt if the sound ends before the clip.
  std::vector<std::optional<AudioClip>> audio;
};

/// Returns `num_clips` clips of `clip_seconds`: the first at the start, the last at the end of the
/// video. A single clip is at the start. If the video is shorter than a clip, each clip is the
/// whole video. With 0 seconds, clips are single frames: the first half a frame after the start,
/// the last half a frame before the end. A clip that would begin at the end of the video contains
/// the last frame. Throws Error: kInvalidArgument for a negative duration or less than one clip;
/// and like AvDecoder.
UniformClips clips_uniform(AvDecoder& decoder, double clip_seconds, std::int64_t num_clips,
                           const UniformClipsOptions& options, BufferAllocator& memory);

/// Returns `num_frames` single frames, at the places of clips of 0 seconds, as one clip. Throws as
/// clips_uniform().
VideoClip frames_uniform(AvDecoder& decoder, std::int64_t num_frames, std::optional<FrameSize> size,
                         BufferAllocator& memory);

}  // namespace energon
