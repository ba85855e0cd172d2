// Decodes the parts of a sample by their names, as Energon's SampleDecoder does.
//
// Among the formats of a kind, the content decides: a PNG called "jpg" is decoded as PNG.
// docs/media.md has the table of names, formats and results.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/image/image_decoder.h"
#include "media/transform/image_transform.h"
#include "media/transform/sound_transform.h"

namespace energon {

// --- The kind of a part, by its name and by its first bytes ---

/// Kinds of content with a decoder.
enum class ContentKind : std::uint8_t {
  kImage,    ///< JPEG, PNG, WebP, GIF, TIFF
  kAv,       ///< a container with sound or video
  kText,     ///< UTF-8
  kInteger,  ///< a decimal integer as text
  kJson,
  kMessagePack,
  kCbor,
  kNpy,  ///< a NumPy array
  kNpz,  ///< named NumPy arrays
  kSafetensors,
  kTenbin,     ///< WebDataset's arrays
  kTorchFile,  ///< written by torch.save()
};

/// The lower-case name, such as "image".
std::string_view to_string(ContentKind kind);

/// The kind by the text after the last dot of `part`, or by all of it if there is no dot, in lower
/// or upper case: "jpg" and "seg.PNG" are images. nullopt for other names, and for pickles, which
/// are never decoded. Names are those of Energon and WebDataset. Requires: no suffix ".gz".
std::optional<ContentKind> content_kind_of_name(std::string_view part);

/// The kind by the signature at the beginning of `content`; nullopt if it is unknown. Text,
/// numbers, JSON, MessagePack and CBOR have no signature.
std::optional<ContentKind> content_kind_of_bytes(ByteView content);

/// Whether content_kind_of_name() is kAv for a format of sound without video: wav, flac, mp3, ogg,
/// aac, m4a.
bool is_sound_name(std::string_view part);

/// `part` without its suffix ".gz", or nullopt if it has no such suffix.
std::optional<std::string_view> name_inside_gzip(std::string_view part);

// --- The decoder ---

/// How to decode sound and video.
enum class AvMode : std::uint8_t {
  /// Keep the bytes, for an AvDecoder (media/av/av_decoder.h) that decodes only the needed clips.
  kBytes,
  /// Decode all frames and all samples to a Mapping {"video": uint8 (frames, 3, height, width),
  /// "audio": (channels, samples), "video_fps": double, "audio_sample_rate": integer}, without the
  /// members that the part does not have. Energon's mode "torch".
  kTensors,
};

struct SampleDecoderOptions {
  /// The image mode (image_mode_names()). An empty string keeps the bytes of images.
  std::string image = "torchrgb";
  /// Images become the values of this transform (decode_transformed_value()) instead of those of
  /// the image mode. 16-bit images become 8-bit.
  std::optional<ImageTransform> transform = std::nullopt;
  /// Applies the EXIF orientation. That of TIFFs is always applied.
  bool apply_orientation = false;
  AvMode av = AvMode::kBytes;
  /// AvDecoderOptions::audio_sample_rate for AvMode::kTensors.
  std::optional<int> audio_sample_rate = std::nullopt;
  /// Parts whose names are those of sound (is_sound_name()) become the tensors of this transform,
  /// whatever `av` says. Only the samples that it needs are decoded.
  std::optional<SoundTransform> sound_transform = std::nullopt;
  /// Keep the bytes of every part.
  bool leaves_bytes = false;
  /// Decode parts with unknown names by their first bytes.
  bool guess_content = false;
  /// The names of the parts that decode() decodes. Unset means all.
  std::optional<std::vector<std::string>> parts = std::nullopt;
  DecodeLimits limits = {};
};

/// Thread-safe. Copies share the memory that a transform reuses.
class SampleDecoder {
 public:
  /// Throws Error (kInvalidArgument) for an unknown image mode, with the list of modes, and for a
  /// transform without an image mode.
  explicit SampleDecoder(SampleDecoderOptions options = {});

  /// Returns the value of the part called `name`: images become tensors of the image mode; text a
  /// string; `cls` and other numbers an integer; JSON, MessagePack and CBOR a value of the same
  /// structure; arrays tensors, or lists or mappings of tensors. If `name` ends in ".gz", the part
  /// is expanded first. Other parts, and pickles, stay bytes. Tensors are stored in `memory`. A
  /// random transform draws from `rng`, once for each image. Throws Error of the decoders
  /// (kCorruptData, kUnsupported, kResourceExhausted), and kInvalidArgument if a random transform
  /// gets no `rng`, with the name of the part before the message.
  Value decode_part(std::string_view name, const SharedBytes& part, BufferAllocator& memory,
                    CallRng* rng = nullptr) const;

  /// Replaces the bytes of each field of `sample` (SampleDecoderOptions::parts) by decode_part(),
  /// in the order of the fields. Throws as decode_part(), with the sample's key.
  void decode(Sample& sample, BufferAllocator& memory, CallRng* rng = nullptr) const;

  /// The random numbers of the call if images are transformed at random, else null: a stage that
  /// does not draw does not make a generator.
  CallRng* rng_of(CallContext& context) const { return is_random() ? &context.rng() : nullptr; }
  bool is_random() const { return options_.transform && options_.transform->is_random(); }

  /// The kind of the part for decode_part(); nullopt if the part stays bytes.
  std::optional<ContentKind> kind_of(std::string_view name, ByteView content) const;

 private:
  class Transform;

  bool is_wanted(std::string_view name) const;
  Value decode_content(ContentKind kind, const SharedBytes& part, BufferAllocator& memory,
                       CallRng* rng) const;
  bool transforms_sound(std::string_view name) const;
  Tensor decode_sound(const SharedBytes& part, BufferAllocator& memory) const;
  Value decode_av(const SharedBytes& part, BufferAllocator& memory) const;

  SampleDecoderOptions options_;
  std::optional<ImageDecoder> image_;
  std::shared_ptr<const Transform> transform_;  // or null
};

}  // namespace energon
