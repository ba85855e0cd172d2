// Detects the kind of parts from arbitrary names and contents. The first byte is the length of the
// name.

#include <algorithm>
#include <optional>
#include <string_view>

#include "media/decode/sample_decoder.h"
#include "media/image/image_decoder.h"
#include "tests/fuzz/media/checked_value.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  if (size == 0) {
    return 0;
  }
  static const SampleDecoder decoder(
      {.av = AvMode::kTensors, .guess_content = true, .limits = fuzz::kFuzzLimits});
  const std::size_t name_bytes = std::min<std::size_t>(data[0], size - 1);
  const std::string_view name = fuzz::text_of(data + 1, name_bytes);
  const ByteView content = std::as_bytes(std::span(data, size).subspan(1 + name_bytes));
  const std::optional<ContentKind> by_bytes = content_kind_of_bytes(content);
  if (image_format_of(content)) {
    fuzz::require(by_bytes == ContentKind::kImage);
  }
  fuzz::require(foreign_image_format(content).size() < 20);
  if (const auto inside = name_inside_gzip(name)) {
    fuzz::require(inside->size() + 3 == name.size());
  }
  if (const auto kind = content_kind_of_name(name)) {
    fuzz::require(!to_string(*kind).empty());
    fuzz::require(decoder.kind_of(name, content) == kind);
  }
  return 0;
}
