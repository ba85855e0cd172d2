// Decodes clips of video and sound, exact to the frame and to the sample.
//
// The capabilities are those of Energon's AVDecoder. Frame 0 is the first frame that is shown, in
// the order of presentation, whatever the container and the order of coding; sample 0 is the first
// that is played, after the priming that the file declares. The result of a call depends on the
// file and its arguments, not on the calls before.
//
// Second 0 is when the file begins: the start of its first stream, or 0 of the container's clock if
// that is later. Containers and codecs: av_input.h and what FFmpeg decodes.

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

/// How sound is reached that is not at the beginning.
enum class AudioAccess : std::uint8_t {
  /// Bit-exact: every clip is what decoding the whole sound would give. Codecs whose decoders carry
  /// state without end (AAC, Opus) are decoded from the start of the file, or on from the last
  /// clip.
  kExact,
  /// Those are decoded from a little before the clip, too: at exactly the right place, but noise
  /// that the decoder makes up differs a little. The samples depend on the clip alone, not on the
  /// clips before it.
  kFast,
};

struct AvDecoderOptions {
  /// max_pixels is for a frame, coded and after resizing; max_bytes for each clip.
  DecodeLimits limits = {};
  AudioAccess audio_access = AudioAccess::kExact;
};

enum class VideoUnit : std::uint8_t { kSeconds, kFrames };
enum class AudioUnit : std::uint8_t { kSeconds, kSamples };

/// The range of a clip, with the meaning that Energon gives it: from `begin` to `end`, both
/// included. Frames and samples are whole numbers from 0. `end` may be infinite.
struct ClipRange {
  double begin = 0;
  double end = 0;
};

/// The size of video frames: width and height in pixels.
struct FrameSize {
  int width = 0;
  int height = 0;

  bool operator==(const FrameSize&) const = default;
};

/// Consecutive frames.
struct VideoClip {
  Tensor frames;                      ///< uint8 (frames, 3, height, width), RGB
  std::vector<double> times_seconds;  ///< when each frame begins to show
  double begin_seconds = 0;           ///< of the first frame
  double end_seconds = 0;             ///< when the last frame ends
};

struct AudioClip {
  /// (channels, samples) as the decoder gives them: uint8, int16, int32 (24-bit sound is in its
  /// upper bits), int64, float32 or float64.
  Tensor samples;
  int sample_rate = 0;       ///< samples per second
  double begin_seconds = 0;  ///< of the first sample
  double end_seconds = 0;    ///< when the last sample ends
};

/// Video and sound of a file; absent where it has none.
struct VideoWithAudio {
  std::optional<VideoClip> video = std::nullopt;
  std::optional<AudioClip> audio = std::nullopt;
};

/// What a file of sound or video says about itself. Absent: there is no such stream, or the file
/// does not tell.
struct AvMetadata {
  /// As the container says or, with count_frames, when the last frame ends.
  std::optional<double> video_duration_seconds = std::nullopt;
  std::optional<std::int64_t> video_frames = std::nullopt;  ///< only with count_frames
  std::optional<double> video_fps = std::nullopt;           ///< average
  /// Pixels of a frame as it is coded and decoded: a rotation that the container asks for is not
  /// applied.
  std::optional<int> width = std::nullopt;
  std::optional<int> height = std::nullopt;
  /// As the container says or, with count_samples, exactly.
  std::optional<double> audio_duration_seconds = std::nullopt;
  std::optional<int> audio_channels = std::nullopt;
  std::optional<int> audio_sample_rate = std::nullopt;       ///< samples per second
  std::optional<std::int64_t> audio_samples = std::nullopt;  ///< per channel; with count_samples
};

/// What to find out exactly, which costs time.
struct AvMetadataOptions {
  bool count_frames = false;   ///< reads all packets; decodes the video where they do not tell
  bool count_samples = false;  ///< decodes the sound
};

/// Opens the file with the first call and reads all packets with the first call that needs frames
/// or samples. Keeps its position, so that clips in ascending order are decoded in one go. Not
/// thread-safe; uses the calling thread only.
///
/// All functions throw Error: kCorruptData for a damaged or truncated file, with the second: damage
/// never makes a clip shorter, and clips that do not depend on a damaged packet are still decoded,
/// but where the container is damaged there are no clips; kUnsupported for
/// files, codecs and formats that are not read; kResourceExhausted above a limit;
/// kInvalidArgument for a range that is none, and for video or sound that the file has not. After
/// an error the decoder may still be used.
class AvDecoder {
 public:
  /// Shares `file`. Does not fail.
  explicit AvDecoder(SharedBytes file, AvDecoderOptions options = {});
  AvDecoder(AvDecoder&&) noexcept;
  AvDecoder& operator=(AvDecoder&&) noexcept;
  ~AvDecoder();

  bool has_video();
  bool has_audio();
  /// What the header says; of FLV also what the first frame and sample say.
  AvMetadata metadata();

  std::int64_t video_frame_count();
  /// Average frames per second; frames by duration if the header does not say.
  double video_fps();
  /// When the last frame ends.
  double video_duration_seconds();
  /// Samples per channel. Decodes all the sound.
  std::int64_t audio_sample_count();
  int audio_sample_rate();
  /// When the last sample ends. Decodes all the sound.
  double audio_duration_seconds();

  /// A clip for each range, in the order of the ranges, which is free; empty for ranges that begin
  /// after the end. ClipRange tells which frames a range has. Frames are resized to `size`;
  /// without it a frame must not change its size within a clip.
  std::vector<std::optional<VideoClip>> video_clips(std::span<const ClipRange> ranges,
                                                    VideoUnit unit, std::optional<FrameSize> size,
                                                    BufferAllocator& memory);
  /// As video_clips(). A clip ends early where the sound does.
  std::vector<std::optional<AudioClip>> audio_clips(std::span<const ClipRange> ranges,
                                                    AudioUnit unit, BufferAllocator& memory);
  /// The frames that are shown at these seconds, as one clip in that order. A second before the
  /// first frame stands for it, one behind the last frame for that.
  VideoClip video_frames_at(std::span<const double> seconds, std::optional<FrameSize> size,
                            BufferAllocator& memory);

  /// All frames.
  VideoClip video(std::optional<FrameSize> size, BufferAllocator& memory);
  /// All samples.
  AudioClip audio(BufferAllocator& memory);
  VideoWithAudio video_with_audio(std::optional<FrameSize> size, BufferAllocator& memory);

  /// What decode_clip_into() will give; empty for a range that begins after the end. Decodes the
  /// first frame if there is no `size`.
  std::optional<TensorSpec> probe_clip(const ClipRange& range, VideoUnit unit,
                                       std::optional<FrameSize> size);
  /// Writes the frames of one clip into memory of the caller, which must have exactly the bytes
  /// that probe_clip() tells, else Error (kInvalidArgument). The result has no tensor. After an
  /// error `to` has unspecified content.
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
/// also as AvDecoder.
UniformClips clips_uniform(AvDecoder& decoder, double clip_seconds, std::int64_t num_clips,
                           const UniformClipsOptions& options, BufferAllocator& memory);

/// Returns `num_frames` single frames, at the places of clips of 0 seconds, as one clip. Throws as
/// clips_uniform().
VideoClip frames_uniform(AvDecoder& decoder, std::int64_t num_frames, std::optional<FrameSize> size,
                         BufferAllocator& memory);

}  // namespace energon
