#include "energon/sample/sample_ref.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "io/byte_codec.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr std::uint8_t kForm = 16;  // the first byte of a list
constexpr std::size_t kHeadBytes = 36;

constexpr unsigned kMostBitsAtOnce = 63;
constexpr unsigned kMostIndexBits = 63;
constexpr unsigned kMostLeafBits = 32;
constexpr unsigned kMostRepetitionBits = 32;

struct Widths {
  unsigned index;
  unsigned leaf;
  unsigned repetition;

  unsigned sum() const { return index + leaf + repetition; }
};

Widths widths_of(const SampleRef& least, const SampleRef& most) {
  const auto width = [](std::uint64_t range) {
    return static_cast<unsigned>(std::bit_width(range));
  };
  return {width(static_cast<std::uint64_t>(most.index - least.index)),
          width(most.leaf - least.leaf), width(most.repetition - least.repetition)};
}

std::uint64_t word_count(std::uint64_t refs, const Widths& widths) {
  return (refs * widths.sum() + 63) / 64;
}

// Extracts numbers from 64-bit words, lowest bits first.
class BitReader {
 public:
  explicit BitReader(std::string_view words) : words_(words) { load(); }

  /// Requires: width <= 63, and that many bits are left.
  std::uint64_t take(unsigned width) {
    std::uint64_t value = word_ >> used_;
    used_ += width;
    if (used_ >= 64) {
      used_ -= 64;
      load();
      if (used_ > 0) {
        value |= word_ << (width - used_);
      }
    }
    return value & ((std::uint64_t{1} << width) - 1);
  }

 private:
  void load() {
    if (next_ + sizeof(word_) <= words_.size()) {
      std::memcpy(&word_, words_.data() + next_, sizeof(word_));
      next_ += sizeof(word_);
    }
  }

  const std::string_view words_;
  std::size_t next_ = 0;
  std::uint64_t word_ = 0;
  unsigned used_ = 0;
};

void check_count(const ByteReader& reader, std::uint64_t count, std::size_t most) {
  if (count > most) {
    reader.fail(fmt::format("{} references, expected at most {}", count, most));
  }
}

// The header before the packed bits.
struct BitsHeader {
  Widths widths;
  std::uint64_t count;
  std::int64_t least_index;
  std::uint64_t least_leaf;
  std::uint64_t least_repetition;
};

BitsHeader read_bits_header(ByteReader& reader, std::size_t most) {
  const BitsHeader header{.widths = {reader.u8(), reader.u8(), reader.u8()},
                          .count = reader.u64(),
                          .least_index = reader.i64(),
                          .least_leaf = reader.u64(),
                          .least_repetition = reader.u64()};
  const Widths& widths = header.widths;
  if (widths.index > kMostIndexBits || widths.leaf > kMostLeafBits ||
      widths.repetition > kMostRepetitionBits || header.least_index < 0 ||
      header.least_leaf > UINT32_MAX || header.least_repetition > UINT32_MAX) {
    reader.fail(fmt::format("invalid widths of {}, {} and {} bits from {}, {} and {} on",
                            widths.index, widths.leaf, widths.repetition, header.least_index,
                            header.least_leaf, header.least_repetition));
  }
  check_count(reader, header.count, most);
  if (reader.left() != 8 * word_count(header.count, widths)) {
    reader.fail(fmt::format("{} references of {} bits do not fill {} bytes", header.count,
                            widths.sum(), reader.left()));
  }
  return header;
}

std::vector<SampleRef> unpack_bits(ByteReader& reader, std::size_t most) {
  const auto [widths, count, least_index, least_leaf, least_repetition] =
      read_bits_header(reader, most);
  std::vector<SampleRef> refs(count);
  BitReader bits(reader.raw(reader.left()));
  std::uint64_t all = 0;  // OR of all sums
  std::uint64_t all_of_32 = 0;
  const bool at_once = widths.sum() <= kMostBitsAtOnce;
  for (SampleRef& ref : refs) {
    std::uint64_t rest = at_once ? bits.take(widths.sum()) : 0;
    const auto next = [&](unsigned width) {
      if (!at_once) {
        return bits.take(width);
      }
      const std::uint64_t value = rest & ((std::uint64_t{1} << width) - 1);
      rest >>= width;
      return value;
    };
    const std::uint64_t index = static_cast<std::uint64_t>(least_index) + next(widths.index);
    const std::uint64_t leaf = least_leaf + next(widths.leaf);
    const std::uint64_t repetition = least_repetition + next(widths.repetition);
    all |= index;
    all_of_32 |= leaf | repetition;
    ref = {static_cast<std::int64_t>(index), static_cast<std::uint32_t>(leaf),
           static_cast<std::uint32_t>(repetition)};
  }
  if (all > INT64_MAX || all_of_32 > UINT32_MAX) {
    reader.fail("sample index, leaf or repetition out of range");
  }
  return refs;
}

}  // namespace

void SampleRefPacker::measure(std::span<const SampleRef> refs) {
  if (count_ == 0 && !refs.empty()) {
    least_ = most_ = refs.front();
  }
  for (const SampleRef& ref : refs) {
    least_ = {std::min(least_.index, ref.index), std::min(least_.leaf, ref.leaf),
              std::min(least_.repetition, ref.repetition)};
    most_ = {std::max(most_.index, ref.index), std::max(most_.leaf, ref.leaf),
             std::max(most_.repetition, ref.repetition)};
  }
  count_ += refs.size();
}

void SampleRefPacker::begin() {
  const Widths widths = widths_of(least_, most_);
  ByteWriter head;
  head.reserve(kHeadBytes + 8 * word_count(count_, widths));
  head.u8(kForm);
  head.u8(static_cast<std::uint8_t>(widths.index));
  head.u8(static_cast<std::uint8_t>(widths.leaf));
  head.u8(static_cast<std::uint8_t>(widths.repetition));
  head.u64(count_);
  head.i64(least_.index);
  head.u64(least_.leaf);
  head.u64(least_.repetition);
  bytes_ = head.take();
}

// Appends the lowest `width` bits of `value`. Requires: the other bits are 0.
void SampleRefPacker::put(std::uint64_t value, unsigned width) {
  word_ |= value << filled_;
  filled_ += width;
  if (filled_ >= 64) {
    bytes_.append(reinterpret_cast<const char*>(&word_), sizeof(word_));
    filled_ -= 64;
    word_ = filled_ == 0 ? 0 : value >> (width - filled_);
  }
}

void SampleRefPacker::add(std::span<const SampleRef> refs) {
  if (bytes_.empty()) {
    begin();
  }
  const Widths widths = widths_of(least_, most_);
  if (widths.sum() <= kMostBitsAtOnce) {
    for (const SampleRef& ref : refs) {
      const std::uint64_t leaf = ref.leaf - least_.leaf;
      const std::uint64_t repetition = ref.repetition - least_.repetition;
      put(static_cast<std::uint64_t>(ref.index - least_.index) | leaf << widths.index |
              repetition << (widths.index + widths.leaf),
          widths.sum());
    }
    return;
  }
  for (const SampleRef& ref : refs) {
    put(static_cast<std::uint64_t>(ref.index - least_.index), widths.index);
    put(ref.leaf - least_.leaf, widths.leaf);
    put(ref.repetition - least_.repetition, widths.repetition);
  }
}

std::string SampleRefPacker::take() {
  if (bytes_.empty()) {
    begin();
  }
  if (filled_ > 0) {
    bytes_.append(reinterpret_cast<const char*>(&word_), sizeof(word_));
    filled_ = 0;
  }
  return std::move(bytes_);
}

std::vector<SampleRef> unpack_sample_refs(std::string_view bytes, std::size_t most) {
  ByteReader reader(bytes, "a saved list of references");
  if (const std::uint8_t form = reader.u8(); form != kForm) {
    reader.fail(fmt::format("form {}, expected {}", form, kForm));
  }
  return unpack_bits(reader, most);
}

}  // namespace energon
