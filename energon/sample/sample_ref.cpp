#include "energon/sample/sample_ref.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "energon/state/byte_codec.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr std::size_t kHeadBytes = 3 + sizeof(std::uint64_t);

struct Widths {
  std::size_t index;
  std::size_t leaf;
  std::size_t repetition;

  std::size_t sum() const { return index + leaf + repetition; }
};

std::size_t width_of(std::uint64_t largest) {
  return static_cast<std::size_t>(std::bit_width(largest) + 7) / 8;
}

Widths widths_of(const SampleRef& largest) {
  return {width_of(static_cast<std::uint64_t>(largest.index)), width_of(largest.leaf),
          width_of(largest.repetition)};
}

// The low bytes of a number; the widths are few, so that the compiler makes moves of them.
void put(char*& to, std::uint64_t value, std::size_t width) {
  std::memcpy(to, &value, width);
  to += width;
}

std::uint64_t get(const char*& from, std::size_t width) {
  std::uint64_t value = 0;
  std::memcpy(&value, from, width);
  from += width;
  return value;
}

}  // namespace

void SampleRefPacker::measure(std::span<const SampleRef> refs) {
  for (const SampleRef& ref : refs) {
    largest_.index = std::max(largest_.index, ref.index);
    largest_.leaf = std::max(largest_.leaf, ref.leaf);
    largest_.repetition = std::max(largest_.repetition, ref.repetition);
  }
  count_ += refs.size();
}

void SampleRefPacker::begin() {
  const Widths widths = widths_of(largest_);
  bytes_.reserve(kHeadBytes + count_ * widths.sum());
  bytes_.push_back(static_cast<char>(widths.index));
  bytes_.push_back(static_cast<char>(widths.leaf));
  bytes_.push_back(static_cast<char>(widths.repetition));
  const auto count = static_cast<std::uint64_t>(count_);
  bytes_.append(reinterpret_cast<const char*>(&count), sizeof(count));
}

void SampleRefPacker::add(std::span<const SampleRef> refs) {
  if (bytes_.empty()) {
    begin();
  }
  const Widths widths = widths_of(largest_);
  const std::size_t first = bytes_.size();
  bytes_.resize(first + refs.size() * widths.sum());
  char* to = bytes_.data() + first;
  for (const SampleRef& ref : refs) {
    put(to, static_cast<std::uint64_t>(ref.index), widths.index);
    put(to, ref.leaf, widths.leaf);
    put(to, ref.repetition, widths.repetition);
  }
}

std::string SampleRefPacker::take() {
  if (bytes_.empty()) {
    begin();
  }
  return std::move(bytes_);
}

std::vector<SampleRef> unpack_sample_refs(std::string_view bytes, std::size_t most) {
  ByteReader reader(bytes, "a saved list of references");
  const Widths widths{reader.u8(), reader.u8(), reader.u8()};
  const std::uint64_t count = reader.u64();
  if (widths.index > 8 || widths.leaf > 4 || widths.repetition > 4) {
    reader.fail(fmt::format("numbers of {}, {} and {} bytes", widths.index, widths.leaf,
                            widths.repetition));
  }
  if (count > most) {
    reader.fail(fmt::format("{} references, at most {} fit", count, most));
  }
  if (widths.sum() == 0
          ? reader.left() != 0
          : count != reader.left() / widths.sum() || reader.left() % widths.sum() != 0) {
    reader.fail(fmt::format("{} references of {} bytes do not fill {} bytes", count, widths.sum(),
                            reader.left()));
  }
  std::vector<SampleRef> refs(count);
  const char* from = reader.raw(reader.left()).data();
  for (SampleRef& ref : refs) {
    ref.index = static_cast<std::int64_t>(get(from, widths.index));
    ref.leaf = static_cast<std::uint32_t>(get(from, widths.leaf));
    ref.repetition = static_cast<std::uint32_t>(get(from, widths.repetition));
    if (ref.index < 0) {
      reader.fail("a negative sample index");
    }
  }
  return refs;
}

}  // namespace energon
