#include "media/decode/sample_decoder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"
#include "media/av/av_decoder.h"
#include "media/data/documents.h"
#include "media/image/image_decoder.h"

namespace energon {

// --- Kinds of content ---

namespace {

using Named = std::pair<std::string_view, ContentKind>;

constexpr std::array kNames = {
    Named{"jpg", ContentKind::kImage},
    Named{"jpeg", ContentKind::kImage},
    Named{"png", ContentKind::kImage},
    Named{"webp", ContentKind::kImage},
    Named{"gif", ContentKind::kImage},
    Named{"tif", ContentKind::kImage},
    Named{"tiff", ContentKind::kImage},
    Named{"mp4", ContentKind::kAv},
    Named{"m4v", ContentKind::kAv},
    Named{"m4a", ContentKind::kAv},
    Named{"mov", ContentKind::kAv},
    Named{"mkv", ContentKind::kAv},
    Named{"webm", ContentKind::kAv},
    Named{"avi", ContentKind::kAv},
    Named{"flv", ContentKind::kAv},
    Named{"wav", ContentKind::kAv},
    Named{"flac", ContentKind::kAv},
    Named{"mp3", ContentKind::kAv},
    Named{"ogg", ContentKind::kAv},
    Named{"aac", ContentKind::kAv},
    Named{"txt", ContentKind::kText},
    Named{"text", ContentKind::kText},
    Named{"transcript", ContentKind::kText},
    Named{"cls", ContentKind::kInteger},
    Named{"cls2", ContentKind::kInteger},
    Named{"index", ContentKind::kInteger},
    Named{"inx", ContentKind::kInteger},
    Named{"id", ContentKind::kInteger},
    Named{"json", ContentKind::kJson},
    Named{"jsn", ContentKind::kJson},
    Named{"mp", ContentKind::kMessagePack},
    Named{"msg", ContentKind::kMessagePack},
    Named{"msgpack", ContentKind::kMessagePack},
    Named{"cbor", ContentKind::kCbor},
    Named{"npy", ContentKind::kNpy},
    Named{"npz", ContentKind::kNpz},
    Named{"safetensors", ContentKind::kSafetensors},
    Named{"ten", ContentKind::kTenbin},
    Named{"tb", ContentKind::kTenbin},
    Named{"pth", ContentKind::kTorchFile},
    Named{"pt", ContentKind::kTorchFile},
};

using namespace std::string_view_literals;

struct Signature {
  std::size_t offset;
  std::string_view bytes;
  ContentKind kind;
};

// The offset of the form type in a RIFF file.
constexpr std::size_t kInRiff = 8;

// From the specifications of the formats.
constexpr std::array kSignatures = {
    Signature{0, "\xFF\xD8\xFF"sv, ContentKind::kImage},       // JPEG
    Signature{0, "\x89PNG\r\n\x1A\n"sv, ContentKind::kImage},  // PNG
    Signature{kInRiff, "WEBP"sv, ContentKind::kImage},
    Signature{0, "GIF87a"sv, ContentKind::kImage},
    Signature{0, "GIF89a"sv, ContentKind::kImage},
    Signature{0, "II*\0"sv, ContentKind::kImage},  // TIFF, little-endian
    Signature{0, "MM\0*"sv, ContentKind::kImage},  // TIFF, big-endian
    Signature{0, "II+\0"sv, ContentKind::kImage},  // BigTIFF
    Signature{0, "MM\0+"sv, ContentKind::kImage},
    Signature{4, "ftyp"sv, ContentKind::kAv},              // MP4, MOV
    Signature{0, "\x1A\x45\xDF\xA3"sv, ContentKind::kAv},  // Matroska, WebM
    Signature{kInRiff, "AVI "sv, ContentKind::kAv},
    Signature{kInRiff, "WAVE"sv, ContentKind::kAv},
    Signature{0, "FLV\x01"sv, ContentKind::kAv},
    Signature{0, "fLaC"sv, ContentKind::kAv},
    Signature{0, "ID3"sv, ContentKind::kAv},  // MP3 with tags
    Signature{0, "OggS"sv, ContentKind::kAv},
    Signature{0, "\x93NUMPY"sv, ContentKind::kNpy},
    Signature{0, "~TenBin~"sv, ContentKind::kTenbin},
};

bool has(ByteView content, const Signature& signature) {
  const std::string_view text = as_text(content);
  return text.size() >= signature.offset + signature.bytes.size() &&
         text.substr(signature.offset, signature.bytes.size()) == signature.bytes &&
         (signature.offset != kInRiff || text.starts_with("RIFF"));
}

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

// The text after the last dot, or all of it, in lower case.
std::string lower_extension(std::string_view part) {
  std::string suffix(part.substr(part.rfind('.') + 1));
  std::ranges::transform(suffix, suffix.begin(), lower);
  return suffix;
}

}  // namespace

std::string_view to_string(ContentKind kind) {
  constexpr std::array<std::string_view, 12> kKinds = {
      "image", "av",  "text", "integer",     "json",   "msgpack",
      "cbor",  "npy", "npz",  "safetensors", "tenbin", "torch file"};
  return kKinds.at(static_cast<std::size_t>(kind));
}

std::optional<ContentKind> content_kind_of_name(std::string_view part) {
  const auto* const found = std::ranges::find(kNames, lower_extension(part), &Named::first);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

std::optional<ContentKind> content_kind_of_bytes(ByteView content) {
  const auto* const found = std::ranges::find_if(
      kSignatures, [content](const Signature& signature) { return has(content, signature); });
  return found == kSignatures.end() ? std::nullopt : std::optional(found->kind);
}

bool is_sound_name(std::string_view part) {
  constexpr std::array kSounds = {"wav"sv, "flac"sv, "mp3"sv, "ogg"sv, "aac"sv, "m4a"sv};
  return std::ranges::find(kSounds, lower_extension(part)) != kSounds.end();
}

std::optional<std::string_view> name_inside_gzip(std::string_view part) {
  if (!part.ends_with(".gz")) {
    return std::nullopt;
  }
  return part.substr(0, part.size() - 3);
}

// --- The decoder ---

namespace {

std::optional<ImageDecoder> image_decoder(const SampleDecoderOptions& options) {
  if (options.image.empty()) {
    return std::nullopt;
  }
  std::optional<ImageOptions> image = image_options_of_mode(options.image);
  if (!image) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("unknown image mode '{}'; supported: {}", printable(options.image),
                            fmt::join(image_mode_names(), ", ")));
  }
  image->limits = options.limits;
  image->apply_orientation = options.apply_orientation;
  return ImageDecoder(*image);
}

}  // namespace

// A transform for all threads. It reuses memory, so a thread that finds it busy uses a copy; and so
// does a child that was forked while another thread was using it.
class SampleDecoder::Transform {
 public:
  Transform(ImageTransform transform, TransformedImageOptions options)
      : original_(std::move(transform)), options_(options), reused_(original_) {}

  Value decode(ByteView encoded, BufferAllocator& memory, CallRng* rng) const {
    if (rng == nullptr && original_.is_random()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the transform draws random numbers: pass a CallRng to decode_part()");
    }
    CallRng unused(0);
    CallRng& numbers = rng != nullptr ? *rng : unused;
    if (is_busy_.test_and_set(std::memory_order_acquire)) {
      ImageTransform own = original_;
      return decode_transformed_value(encoded, own, numbers, memory, options_);
    }
    struct Release {
      std::atomic_flag& flag;
      ~Release() { flag.clear(std::memory_order_release); }
    } const release{is_busy_};
    return decode_transformed_value(encoded, reused_, numbers, memory, options_);
  }

 private:
  const ImageTransform original_;
  const TransformedImageOptions options_;
  mutable std::atomic_flag is_busy_;
  mutable ImageTransform reused_;  // by the thread that has set is_busy_
};

SampleDecoder::SampleDecoder(SampleDecoderOptions options)
    : options_(std::move(options)), image_(image_decoder(options_)) {
  if (!options_.transform) {
    return;
  }
  if (!image_) {
    throw Error(ErrorCode::kInvalidArgument,
                "a transform needs decoded images: set an image mode, or remove the transform");
  }
  transform_ = std::make_shared<const Transform>(
      *options_.transform, TransformedImageOptions{.apply_orientation = options_.apply_orientation,
                                                   .limits = options_.limits});
}

std::optional<ContentKind> SampleDecoder::kind_of(std::string_view name, ByteView content) const {
  std::optional<ContentKind> kind = content_kind_of_name(name);
  if (!kind && options_.guess_content) {
    kind = content_kind_of_bytes(content);
  }
  const bool stays =
      (kind == ContentKind::kImage && !image_) ||
      (kind == ContentKind::kAv && options_.av == AvMode::kBytes && !transforms_sound(name));
  return stays ? std::nullopt : kind;
}

Value SampleDecoder::decode_part(std::string_view name, const SharedBytes& part,
                                 BufferAllocator& memory, CallRng* rng) const {
  if (options_.leaves_bytes) {
    return Value(part);
  }
  try {
    if (const auto inside = name_inside_gzip(name)) {
      return decode_part(*inside, expand_gzip(part.view, options_.limits, memory), memory, rng);
    }
    const std::optional<ContentKind> kind = kind_of(name, part.view);
    if (kind == ContentKind::kAv && transforms_sound(name)) {
      return decode_sound(part, memory);
    }
    return kind ? decode_content(*kind, part, memory, rng) : Value(part);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("part '{}': {}", printable(name), error.message()),
                error.context());
  }
}

void SampleDecoder::decode(Sample& sample, BufferAllocator& memory, CallRng* rng) const {
  if (options_.leaves_bytes) {
    return;
  }
  try {
    for (auto& [name, value] : sample.fields) {
      const auto* part = std::get_if<SharedBytes>(&value.base());
      if (part != nullptr && is_wanted(name)) {
        value = decode_part(name, *part, memory, rng);
      }
    }
  } catch (Error& error) {
    if (!sample.keys.empty()) {
      error.with({.sample_key = std::string(sample.keys.front())});
    }
    throw;
  }
}

bool SampleDecoder::is_wanted(std::string_view name) const {
  const auto& parts = options_.parts;
  return !parts || std::find(parts->begin(), parts->end(), name) != parts->end();
}

Value SampleDecoder::decode_av(const SharedBytes& part, BufferAllocator& memory) const {
  AvDecoder decoder(part,
                    {.limits = options_.limits, .audio_sample_rate = options_.audio_sample_rate});
  VideoWithAudio all = decoder.video_with_audio(std::nullopt, memory);
  Mapping fields;
  if (all.video) {
    fields.emplace_back("video", std::move(all.video->frames));
    fields.emplace_back("video_fps", decoder.video_fps());
  }
  if (all.audio) {
    fields.emplace_back("audio", std::move(all.audio->samples));
    fields.emplace_back("audio_sample_rate", std::int64_t{all.audio->sample_rate});
  }
  return fields;
}

bool SampleDecoder::transforms_sound(std::string_view name) const {
  return options_.sound_transform && is_sound_name(name);
}

Tensor SampleDecoder::decode_sound(const SharedBytes& part, BufferAllocator& memory) const {
  AvDecoder decoder(part, {.limits = options_.limits});
  const SoundTransform& transform = *options_.sound_transform;
  const int rate = decoder.audio_sample_rate();  // throws if there is no sound
  const std::optional<std::int64_t> needed = transform.needed_samples(rate);
  if (!needed) {
    const AudioClip all = decoder.audio(heap_memory());
    return transform.run(all.samples, all.sample_rate, memory);
  }
  const ClipRange range = {.begin = 0, .end = static_cast<double>(*needed - 1)};
  const std::vector<std::optional<AudioClip>> clips =
      decoder.audio_clips({&range, 1}, AudioUnit::kSamples, heap_memory());
  if (!clips[0]) {
    throw Error(ErrorCode::kCorruptData, "the sound has no samples");
  }
  return transform.run(clips[0]->samples, clips[0]->sample_rate, memory);
}

Value SampleDecoder::decode_content(ContentKind kind, const SharedBytes& part,
                                    BufferAllocator& memory, CallRng* rng) const {
  const DecodeLimits& limits = options_.limits;
  switch (kind) {
    case ContentKind::kImage:
      return transform_ ? transform_->decode(part.view, memory, rng)
                        : image_->decode(part.view, memory);
    case ContentKind::kAv:
      return decode_av(part, memory);
    case ContentKind::kText:
      return decode_text(part.view);
    case ContentKind::kInteger:
      return decode_integer(part.view);
    case ContentKind::kJson:
      return decode_json(part.view, limits);
    case ContentKind::kMessagePack:
      return decode_msgpack(part.view, limits);
    case ContentKind::kCbor:
      return decode_cbor(part.view, limits);
    case ContentKind::kNpy:
      return NpyDecoder(limits).decode(part.view, memory);
    case ContentKind::kNpz:
      return decode_npz(part.view, limits, memory);
    case ContentKind::kSafetensors:
      return decode_safetensors(part, limits, memory);
    case ContentKind::kTenbin:
      return decode_tenbin(part.view, memory);
    case ContentKind::kTorchFile:
      return decode_torch_file(part.view, limits, memory);
  }
  throw Error(ErrorCode::kInternal, "a kind of content has no decoder");
}

}  // namespace energon
