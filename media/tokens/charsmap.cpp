#include "media/tokens/charsmap.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr std::size_t kUnitBytes = sizeof(std::uint32_t);
constexpr int kMaxPrefixes = 32;
constexpr std::size_t kLabels = 256;

// A unit of the double array, as Darts-clone packs it.
struct DartsUnit {
  std::uint32_t bits;

  bool has_leaf() const { return (bits >> 8 & 1) != 0; }
  std::uint32_t value() const { return bits & 0x7FFF'FFFF; }
  /// Equal to a byte for the children of that byte; never for leaves.
  std::uint32_t label() const { return bits & 0x8000'00FF; }
  std::size_t offset() const {
    return static_cast<std::size_t>(bits >> 10) << ((bits & 0x200) >> 6);
  }
};

// Walks once over all nodes that a text can lead to.
class DartsWalk {
 public:
  DartsWalk(ByteView array, ByteView texts)
      : array_(array), texts_(texts), prefixes_(array.size() / kUnitBytes, kNotSeen) {}

  void run() {
    enter(0);
    while (!path_.empty()) {
      Step& step = path_.back();
      if (step.label == kLabels) {
        leave();
        continue;
      }
      const std::size_t label = step.label++;
      const std::size_t child = step.base ^ label;
      if (unit(child).label() != label) {
        continue;
      }
      if (prefixes_[child] == kNotSeen) {
        enter(child);
      } else {
        check_no_cycle(child);
        step.prefixes = std::max(step.prefixes, prefixes_[child]);
      }
    }
  }

 private:
  static constexpr std::uint8_t kNotSeen = 255;
  static constexpr std::uint8_t kOnPath = 254;

  struct Step {
    std::size_t node;
    std::size_t base;           // of its children
    std::size_t label = 0;      // of the next child
    std::uint8_t prefixes = 0;  // most entries that end behind the node on one path
  };

  DartsUnit unit(std::size_t i) const {
    DartsUnit result{};
    std::memcpy(&result.bits, array_.data() + i * kUnitBytes, kUnitBytes);
    return result;
  }

  void enter(std::size_t node) {
    const DartsUnit own = unit(node);
    const std::size_t base = node ^ own.offset();
    if ((base | (kLabels - 1)) >= prefixes_.size()) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("unit {} of the table of normalisation leads to unit {} of {}", node,
                              base | (kLabels - 1), prefixes_.size()));
    }
    if (own.has_leaf() && unit(base).value() >= texts_.size()) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("an entry of the table of normalisation has its text at byte {} of {}",
                      unit(base).value(), texts_.size()));
    }
    prefixes_[node] = kOnPath;
    path_.push_back({.node = node, .base = base});
  }

  void leave() {
    const Step step = path_.back();
    path_.pop_back();
    const int prefixes = step.prefixes + (unit(step.node).has_leaf() ? 1 : 0);
    if (prefixes > kMaxPrefixes) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("more than {} entries of the table of normalisation begin with one "
                              "another",
                              kMaxPrefixes));
    }
    prefixes_[step.node] = static_cast<std::uint8_t>(prefixes);
    if (!path_.empty()) {
      path_.back().prefixes = std::max(path_.back().prefixes, prefixes_[step.node]);
    }
  }

  void check_no_cycle(std::size_t node) const {
    if (prefixes_[node] == kOnPath) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the table of normalisation has a cycle at unit {}", node));
    }
  }

  const ByteView array_;
  const ByteView texts_;
  // Of each node: kNotSeen, kOnPath, or the most entries that end in it and behind it on one path.
  std::vector<std::uint8_t> prefixes_;
  std::vector<Step> path_;
};

}  // namespace

void check_charsmap(ByteView table) {
  static_assert(std::endian::native == std::endian::little);
  if (table.empty()) {
    return;
  }
  if (table.size() > kMaxBytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("the table of normalisation has {} bytes, the limit is {}",
                            table.size(), kMaxBytes));
  }
  std::uint32_t array_bytes = 0;
  if (table.size() >= kUnitBytes) {
    std::memcpy(&array_bytes, table.data(), kUnitBytes);
  }
  if (table.size() < kUnitBytes || array_bytes > table.size() - kUnitBytes ||
      array_bytes % kUnitBytes != 0 || array_bytes == 0) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the table of normalisation has {} bytes and says that {} of them are "
                            "its array",
                            table.size(), array_bytes));
  }
  const ByteView texts = table.subspan(kUnitBytes + array_bytes);
  if (texts.empty() || texts.back() != std::byte{0}) {
    throw Error(ErrorCode::kCorruptData, "the texts of a table of normalisation end without a 0");
  }
  DartsWalk(table.subspan(kUnitBytes, array_bytes), texts).run();
}

}  // namespace energon
