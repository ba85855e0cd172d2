#include "media/image/orientation.h"

#include <cstdint>
#include <optional>

namespace energon {
namespace {

constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kShort = 3;  // TIFF types with which orientations occur
constexpr std::uint32_t kLong = 4;
constexpr std::size_t kEntryBytes = 12;

// Reads numbers of a TIFF structure. Numbers after its end are absent.
class ExifNumbers {
 public:
  ExifNumbers(ByteView bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  std::optional<std::uint32_t> at(std::size_t offset, std::size_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) {
      return std::nullopt;
    }
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t place = big_endian_ ? i : size - 1 - i;
      value = (value << 8U) | std::to_integer<std::uint32_t>(bytes_[offset + place]);
    }
    return value;
  }

 private:
  ByteView bytes_;
  bool big_endian_;
};

int orientation_in(const ExifNumbers& numbers) {
  const auto directory = numbers.at(4, 4);
  const auto count = directory ? numbers.at(*directory, 2) : std::nullopt;
  for (std::uint32_t i = 0; count && i < *count; ++i) {
    const std::size_t entry = std::size_t{*directory} + 2 + kEntryBytes * i;
    const auto tag = numbers.at(entry, 2);
    if (!tag) {
      break;
    }
    if (*tag == kOrientationTag) {
      const auto type = numbers.at(entry + 2, 2);
      const auto value = numbers.at(entry + 8, type == kLong ? 4 : 2);
      const bool valid = (type == kShort || type == kLong) && value && *value >= 1 && *value <= 8;
      return valid ? static_cast<int>(*value) : 1;
    }
  }
  return 1;
}

}  // namespace

int exif_orientation(ByteView exif) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  if (as_text(exif).starts_with(kPrefix)) {
    exif = exif.subspan(kPrefix.size());
  }
  const std::string_view text = as_text(exif);
  const bool big_endian = text.starts_with(std::string_view("MM\0*", 4));
  if (!big_endian && !text.starts_with(std::string_view("II*\0", 4))) {
    return 1;
  }
  return orientation_in(ExifNumbers(exif, big_endian));
}

}  // namespace energon
