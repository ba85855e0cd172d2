#include "media/decode/sample_decoder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"
#include "media/av/av_decoder.h"
#include "media/data/documents.h"
#include "media/data/gzip.h"
#include "media/data/tensor_files.h"
#include "media/data/text.h"
#include "media/image/image_decoder.h"

namespace energon {
namespace {

std::optional<ImageDecoder> image_decoder(const SampleDecoderOptions& options) {
  if (options.image.empty()) {
    return std::nullopt;
  }
  std::optional<ImageOptions> image = image_options_of_mode(options.image);
  if (!image) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there is no image mode '{}'; the modes are {}",
                            printable(options.image), fmt::join(image_mode_names(), ", ")));
  }
  image->limits = options.limits;
  return ImageDecoder(*image);
}

}  // namespace

SampleDecoder::SampleDecoder(SampleDecoderOptions options)
    : options_(std::move(options)), image_(image_decoder(options_)) {}

std::optional<ContentKind> SampleDecoder::kind_of(std::string_view name, ByteView content) const {
  std::optional<ContentKind> kind = content_kind_of_name(name);
  if (!kind && options_.guess_content) {
    kind = content_kind_of_bytes(content);
  }
  const bool stays = (kind == ContentKind::kImage && !image_) ||
                     (kind == ContentKind::kAv && options_.av == AvMode::kBytes);
  return stays ? std::nullopt : kind;
}

Value SampleDecoder::decode_part(std::string_view name, const SharedBytes& part,
                                 BufferAllocator& memory) const {
  if (options_.leaves_bytes) {
    return Value(part);
  }
  try {
    if (const auto inside = name_inside_gzip(name)) {
      return decode_part(*inside, expand_gzip(part.view, options_.limits, memory), memory);
    }
    const std::optional<ContentKind> kind = kind_of(name, part.view);
    return kind ? decode_content(*kind, part, memory) : Value(part);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("part '{}': {}", printable(name), error.message()),
                error.context());
  }
}

void SampleDecoder::decode(Sample& sample, BufferAllocator& memory) const {
  if (options_.leaves_bytes) {
    return;
  }
  try {
    for (auto& [name, value] : sample.fields) {
      const auto* part = std::get_if<SharedBytes>(&value.base());
      if (part != nullptr && is_wanted(name)) {
        value = decode_part(name, *part, memory);
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
  AvDecoder decoder(part, {.limits = options_.limits});
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

Value SampleDecoder::decode_content(ContentKind kind, const SharedBytes& part,
                                    BufferAllocator& memory) const {
  const DecodeLimits& limits = options_.limits;
  switch (kind) {
    case ContentKind::kImage:
      return image_->decode(part.view, memory);
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
