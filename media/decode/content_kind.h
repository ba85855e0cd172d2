// What a part holds, by its name and by its first bytes.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "io/bytes.h"

namespace energon {

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

/// By the text behind the last dot of `part`, or all of it, in lower or upper case: "jpg" and
/// "seg.PNG" are images. Nothing for other names, and for pickles, which are never decoded. A
/// suffix ".gz" must have been removed. The names are those of Energon and of WebDataset.
std::optional<ContentKind> content_kind_of_name(std::string_view part);

/// By the signature at the begin of `content`; nothing without a known one. Text, numbers, JSON,
/// MessagePack and CBOR have none.
std::optional<ContentKind> content_kind_of_bytes(ByteView content);

/// `part` without a suffix ".gz"; nothing if it has none.
std::optional<std::string_view> name_inside_gzip(std::string_view part);

}  // namespace energon
