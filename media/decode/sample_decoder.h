// Decodes the parts of a sample by their names, as Energon's SampleDecoder does.
//
// Content decides among the formats of a kind: a PNG called "jpg" is decoded as what it is.
// docs/media.md has the table of names, formats and results.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/image/image_decoder.h"

namespace energon {

// --- What a part holds, by its name and by its first bytes ---

/// Kinds of content that there are decoders for.
enum class ContentKind : std::uint8_t {
  kImage,    ///< JPEG, PNG, WebP, GIF, TIFF
  kAv,       ///< a container or a file of sound or video
  kText,     ///< UTF-8
  kInteger,  ///< a decimal number as text
  kJson,
  kMessagePack,
  kCbor,
  kNpy,  ///< an array of NumPy
  kNpz,  ///< named arrays of NumPy
  kSafetensors,
  kTenbin,     ///< arrays of WebDataset
  kTorchFile,  ///< what torch.save() wrote
};

/// Lower-case name, such as "image".
std::string_view to_string(ContentKind kind);

/// By the text after the last dot of `part`, or all of it, in lower or upper case: "jpg" and
/// "seg.PNG" are images. Nothing for other names, and for pickles, which are never decoded. A
/// suffix ".gz" must have been removed. The names are those of Energon and of WebDataset.
std::optional<ContentKind> content_kind_of_name(std::string_view part);

/// By the signature at the begin of `content`; nothing without a known one. Text, numbers, JSON,
/// MessagePack and CBOR have none.
std::optional<ContentKind> content_kind_of_bytes(ByteView content);

/// `part` without a suffix ".gz"; nothing if it has none.
std::optional<std::string_view> name_inside_gzip(std::string_view part);

// --- The decoder ---

/// What becomes of sound and video.
enum class AvMode : std::uint8_t {
  /// They stay bytes, for an AvDecoder of the user (media/av/av_decoder.h) that decodes only the
  /// clips that are needed.
  kBytes,
  /// All frames and all samples: a Mapping {"video": uint8 (frames, 3, height, width), "audio":
  /// (channels, samples), "video_fps": number, "audio_sample_rate": integer}, without what the part
  /// does not have. Energon's mode "torch".
  kTensors,
};

struct SampleDecoderOptions {
  /// A mode of images (image_mode_names()), or empty: images stay bytes.
  std::string image = "torchrgb";
  AvMode av = AvMode::kBytes;
  /// Every part stays the bytes that it is.
  bool leaves_bytes = false;
  /// Parts whose names say nothing are decoded by their first bytes.
  bool guess_content = false;
  /// decode() leaves parts with other names as they are. Absent: it decodes all.
  std::optional<std::vector<std::string>> parts = std::nullopt;
  DecodeLimits limits = {};
};

/// Thread-safe: has options only.
class SampleDecoder {
 public:
  /// Throws Error (kInvalidArgument) for an unknown image mode, with the list of modes.
  explicit SampleDecoder(SampleDecoderOptions options = {});

  /// The value of the part called `name`: an image is a tensor of the mode; text a text; `cls` and
  /// other numbers an integer; JSON, MessagePack and CBOR a value of the same structure; arrays are
  /// tensors, lists or mappings of tensors. What lies in gzip (`name` ends in ".gz") is expanded
  /// first. Other parts, and pickles, stay the bytes they are. Tensors lie in `memory`. Throws
  /// Error: those of the decoders (kCorruptData, kUnsupported, kResourceExhausted) with the name of
  /// the part in front.
  Value decode_part(std::string_view name, const SharedBytes& part, BufferAllocator& memory) const;

  /// Replaces the bytes of each field of `sample` (SampleDecoderOptions::parts) by decode_part().
  /// Throws the same, with the sample's key.
  void decode(Sample& sample, BufferAllocator& memory) const;

  /// What decode_part() takes the part for; nothing: it stays bytes.
  std::optional<ContentKind> kind_of(std::string_view name, ByteView content) const;

 private:
  bool is_wanted(std::string_view name) const;
  Value decode_content(ContentKind kind, const SharedBytes& part, BufferAllocator& memory) const;
  Value decode_av(const SharedBytes& part, BufferAllocator& memory) const;

  SampleDecoderOptions options_;
  std::optional<ImageDecoder> image_;
};

}  // namespace energon
