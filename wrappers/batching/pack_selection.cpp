#include "wrappers/batching/pack_selection.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

/// Packs by number, and the room left in each: a tournament tree finds the first with enough.
class Packs {
 public:
  Packs(std::size_t most, std::int64_t room)
      : leaves_(std::bit_ceil(std::max<std::size_t>(most, 1))), room_(2 * leaves_, room) {}

  /// Requires: the length is at most the room of an empty pack, and fewer than `most` were put.
  std::size_t put(std::int64_t length) {
    std::size_t node = 1;
    while (node < leaves_) {
      node = 2 * node + (room_[2 * node] >= length ? 0 : 1);
    }
    room_[node] -= length;
    const std::size_t pack = node - leaves_;
    for (node /= 2; node > 0; node /= 2) {
      room_[node] = std::max(room_[2 * node], room_[2 * node + 1]);
    }
    return pack;
  }

 private:
  const std::size_t leaves_;
  std::vector<std::int64_t> room_;  // node i has 2i and 2i + 1 below it
};

std::vector<std::int64_t> lengths_of(std::span<const Sample> samples, const LengthFunction& length,
                                     std::int64_t max_length) {
  std::vector<std::int64_t> lengths;
  std::vector<std::size_t> unpackable;
  lengths.reserve(samples.size());
  for (const Sample& sample : samples) {
    lengths.push_back(length(sample));
    if (lengths.back() < 0 || lengths.back() > max_length) {
      unpackable.push_back(lengths.size() - 1);
    }
  }
  if (!unpackable.empty()) {
    std::string reason = fmt::format("a sample has length {}, packs are for 0 to {}",
                                     lengths[unpackable.front()], max_length);
    throw UnpackableSamples(std::move(unpackable), std::move(reason));
  }
  return lengths;
}

}  // namespace

SelectFunction pack_by_length(LengthFunction length, std::int64_t max_length) {
  if (!length || max_length < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("packs need a length function and a maximal length of at least 1, not "
                            "{}",
                            max_length));
  }
  return [length = std::move(length), max_length](std::span<const Sample> samples) {
    const std::vector<std::int64_t> lengths = lengths_of(samples, length, max_length);
    std::vector<std::size_t> longest_first(samples.size());
    std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
    std::ranges::stable_sort(longest_first, std::greater(),
                             [&lengths](std::size_t i) { return lengths[i]; });
    Packs packs(samples.size(), max_length);
    std::vector<std::vector<std::size_t>> selection;
    for (const std::size_t i : longest_first) {
      const std::size_t pack = packs.put(lengths[i]);
      if (pack == selection.size()) {
        selection.emplace_back();
      }
      selection[pack].push_back(i);
    }
    for (std::vector<std::size_t>& pack : selection) {
      std::ranges::sort(pack);
    }
    return selection;
  };
}

}  // namespace energon
