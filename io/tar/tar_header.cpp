#include "io/tar/tar_header.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "io/bytes.h"

namespace energon {
namespace {

struct Field {
  std::size_t offset;
  std::size_t size;
};

constexpr Field kName{0, 100};
constexpr Field kSize{124, 12};
constexpr Field kChecksum{148, 8};
constexpr std::size_t kTypeFlag = 156;
constexpr Field kLinkName{157, 100};
constexpr Field kMagic{257, 8};  // includes the version
constexpr Field kPrefix{345, 155};
constexpr Field kPadding{500, 12};

using std::string_view_literals::operator""sv;
constexpr std::string_view kGnuMagic = "ustar  \0"sv;
constexpr std::string_view kV7Magic = "\0\0\0\0\0\0\0\0"sv;
constexpr std::string_view kPlainUstarMagic = "ustar\00000"sv;

std::string_view field(TarBlock block, Field where) {
  return as_text(ByteView(block).subspan(where.offset, where.size));
}

// Up to the first NUL, or all of it.
std::string_view text_field(TarBlock block, Field where) {
  const std::string_view all = field(block, where);
  return all.substr(0, all.find('\0'));
}

// Leading spaces, octal digits, then only spaces and NULs. A blank field is 0: writers leave the
// size of members without data blank.
std::optional<std::uint64_t> parse_octal(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size() && text[i] == ' ') {
    ++i;
  }
  std::uint64_t value = 0;  // twelve octal digits fit into 36 bits
  while (i < text.size() && text[i] >= '0' && text[i] <= '7') {
    value = value * 8 + static_cast<std::uint64_t>(text[i++] - '0');
  }
  while (i < text.size() && (text[i] == ' ' || text[i] == '\0')) {
    ++i;
  }
  return i == text.size() ? std::optional(value) : std::nullopt;
}

// GNU's base-256: first byte 0x80, the rest big-endian two's complement.
std::uint64_t parse_base256(std::string_view text, std::uint64_t offset) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if ((byte(0) & 0x40) != 0) {
    throw corrupt_tar(offset, "the size in the tar header is negative");
  }
  std::uint64_t value = byte(0) & 0x3F;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (value > (std::numeric_limits<std::uint64_t>::max() >>
                 9)) {  // must fit into 63 bits after the shift
      throw corrupt_tar(offset, "the size in the tar header is 2^63 or more");
    }
    value = value << 8 | byte(i);
  }
  return value;
}

std::uint64_t parse_size(TarBlock block, std::uint64_t offset) {
  const std::string_view text = field(block, kSize);
  if ((static_cast<unsigned char>(text[0]) & 0x80) != 0) {
    return parse_base256(text, offset);
  }
  const std::optional<std::uint64_t> value = parse_octal(text);
  if (!value) {
    throw corrupt_tar(offset, fmt::format("the size in the tar header is '{}', not an octal number",
                                          printable(text)));
  }
  return *value;
}

TarFormat parse_magic(TarBlock block, std::uint64_t offset) {
  const std::string_view magic = field(block, kMagic);
  if (magic == kGnuMagic) {
    return TarFormat::kGnu;
  }
  if (magic.starts_with("ustar")) {
    return TarFormat::kUstar;
  }
  if (magic == kV7Magic) {
    return TarFormat::kV7;
  }
  throw corrupt_tar(offset, fmt::format("the magic in the tar header is '{}', neither ustar nor "
                                        "blank",
                                        printable(magic)));
}

template <class Byte>
std::int64_t sum_of(TarBlock block) {
  std::int32_t sum = 0;
  for (const std::byte byte : block) {
    sum += static_cast<Byte>(byte);
  }
  // The checksum itself counts as spaces.
  for (const std::byte byte : block.subspan<kChecksum.offset, kChecksum.size>()) {
    sum += ' ' - static_cast<Byte>(byte);
  }
  return sum;
}

// Exactly `digits` octal digits at the beginning of `text`.
std::optional<std::uint64_t> plain_octal(std::string_view text, std::size_t digits) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const auto digit = static_cast<unsigned char>(text[i] - '0');
    if (digit > 7) {
      return std::nullopt;
    }
    value = value * 8 + digit;
  }
  return value;
}

// Bitwise OR of all bytes of a field, computed by words, because the fields are long and mostly
// zero.
std::uint64_t bits_in(TarBlock block, Field where) {
  std::uint64_t bits = 0;
  std::uint64_t word = 0;
  for (std::size_t i = 0; i + sizeof(word) <= where.size; i += sizeof(word)) {
    std::memcpy(&word, block.data() + where.offset + i, sizeof(word));
    bits |= word;
  }
  // The last word overlaps the one before it.
  std::memcpy(&word, block.data() + where.offset + where.size - sizeof(word), sizeof(word));
  return bits | word;
}

bool is_zero(TarBlock block, Field where) { return bits_in(block, where) == 0; }

bool is_ascii(TarBlock block, Field where) {
  return (bits_in(block, where) & 0x8080808080808080) == 0;
}

#ifdef __SSE2__
// Adds 16 bytes per instruction.
std::uint32_t sum_of_bytes(TarBlock block) {
  const __m128i zero = _mm_setzero_si128();
  __m128i sums = zero;  // two 64-bit lanes
  for (std::size_t i = 0; i < kTarBlockBytes; i += sizeof(__m128i)) {
    __m128i bytes = zero;
    std::memcpy(&bytes, block.data() + i, sizeof(bytes));
    sums = _mm_add_epi64(sums, _mm_sad_epu8(bytes, zero));
  }
  const __m128i both = _mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(both));
}
#else
// Adds eight bytes at a time: even and odd bytes in 16-bit lanes, which 64 words cannot overflow.
std::uint32_t sum_of_bytes(TarBlock block) {
  constexpr std::uint64_t kLanes = 0x00FF00FF00FF00FF;
  std::uint64_t lanes = 0;
  for (std::size_t i = 0; i < kTarBlockBytes; i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, block.data() + i, sizeof(word));
    lanes += (word & kLanes) + (word >> 8U & kLanes);
  }
  std::uint32_t sum = 0;
  for (std::uint32_t shift = 0; shift < 64; shift += 16) {
    sum += static_cast<std::uint32_t>(lanes >> shift & 0xFFFFU);
  }
  return sum;
}
#endif

// The unsigned sum of all bytes, with those of the checksum counted as spaces.
std::uint32_t fast_sum(TarBlock block) {
  std::uint32_t sum = sum_of_bytes(block);
  for (const char c : field(block, kChecksum)) {
    sum += static_cast<std::uint32_t>(' ') - static_cast<unsigned char>(c);
  }
  return sum;
}

}  // namespace

bool is_zero_block(TarBlock block) {
  return block[0] == std::byte{0} &&
         std::memcmp(block.data(), block.data() + 1, block.size() - 1) == 0;
}

bool has_valid_checksum(TarBlock block) {
  const std::string_view text = field(block, kChecksum);
  const std::optional<std::uint64_t> stored = parse_octal(text);
  if (!stored || text.find_first_of("01234567") == std::string_view::npos) {
    return false;
  }
  const auto value = static_cast<std::int64_t>(*stored);
  return value == sum_of<unsigned char>(block) || value == sum_of<signed char>(block);
}

TarHeader parse_tar_header(TarBlock block, std::uint64_t offset) {
  if (!has_valid_checksum(block)) {
    throw corrupt_tar(
        offset, fmt::format("not a tar header: the checksum field is '{}', the bytes "
                            "sum to {:o}",
                            printable(field(block, kChecksum)), sum_of<unsigned char>(block)));
  }
  TarHeader header;
  header.format = parse_magic(block, offset);
  header.name = text_field(block, kName);
  if (header.format == TarFormat::kUstar) {  // GNU stores times and the sparse map there
    header.prefix = text_field(block, kPrefix);
  }
  header.size = parse_size(block, offset);
  header.type_flag = static_cast<char>(block[kTypeFlag]);
  return header;
}

std::optional<TarHeader> parse_plain_header(TarBlock block) {
  constexpr std::size_t kSizeDigits = 11;
  constexpr std::size_t kChecksumDigits = 6;
  TarHeader header;
  header.type_flag = static_cast<char>(block[kTypeFlag]);
  if (header.type_flag != '0' && header.type_flag != '5') {
    return std::nullopt;
  }
  const std::string_view size = field(block, kSize);
  const std::string_view checksum = field(block, kChecksum);
  const std::optional<std::uint64_t> size_bytes = plain_octal(size, kSizeDigits);
  const std::optional<std::uint64_t> sum = plain_octal(checksum, kChecksumDigits);
  if (!size_bytes || (size.back() != '\0' && size.back() != ' ') || !sum ||
      checksum.substr(kChecksumDigits) != "\0 "sv || *sum != fast_sum(block)) {
    return std::nullopt;
  }
  const std::string_view magic = field(block, kMagic);
  if (magic == kPlainUstarMagic) {
    header.format = TarFormat::kUstar;
    header.prefix = text_field(block, kPrefix);
  } else if (magic == kGnuMagic && is_zero(block, kPrefix)) {  // no times, no sparse map
    header.format = TarFormat::kGnu;
  } else {
    return std::nullopt;
  }
  header.name = text_field(block, kName);
  header.size = *size_bytes;
  const bool is_folder = header.type_flag == '5';
  if (header.name.empty() || (is_folder ? header.size != 0 : header.name.ends_with('/')) ||
      header.prefix.ends_with('/') || !is_ascii(block, kName) ||
      (!header.prefix.empty() && !is_ascii(block, kPrefix)) ||
      block[kLinkName.offset] != std::byte{0} || !is_zero(block, kPadding)) {
    return std::nullopt;
  }
  return header;
}

Error corrupt_tar(std::uint64_t offset, std::string reason) {
  return Error(ErrorCode::kCorruptData, std::move(reason), {.byte_offset = offset});
}

// --- Pax records ---

namespace {

// All of `text` as decimal digits.
std::optional<std::uint64_t> parse_decimal(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::optional<PaxRecord> PaxRecords::next() {
  if (rest_.empty()) {
    return std::nullopt;
  }
  const std::size_t space = rest_.find(' ');
  const std::optional<std::uint64_t> length =
      space == std::string_view::npos ? std::nullopt : parse_decimal(rest_.substr(0, space));
  if (!length || *length <= space || *length > rest_.size() || rest_[*length - 1] != '\n') {
    throw corrupt_tar(offset_, fmt::format("malformed pax record: its length is wrong near '{}'",
                                           printable(rest_.substr(0, 40))));
  }
  const std::string_view text = rest_.substr(space + 1, *length - space - 2);
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw corrupt_tar(offset_, fmt::format("malformed pax record: no key in '{}'",
                                           printable(text.substr(0, 40))));
  }
  const PaxRecord record{text.substr(0, equals), text.substr(equals + 1), offset_};
  rest_.remove_prefix(*length);
  offset_ += *length;
  return record;
}

std::uint64_t parse_pax_size(const PaxRecord& record) {
  const std::optional<std::uint64_t> value = parse_decimal(record.value);
  if (!value || *value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    throw corrupt_tar(record.offset,
                      fmt::format("the pax size is '{}', not a number of bytes below 2^63",
                                  printable(record.value.substr(0, 40))));
  }
  return *value;
}

}  // namespace energon
