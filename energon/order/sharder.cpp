#include "energon/order/sharder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

std::vector<std::int64_t> interleave_halves(std::span<const std::int64_t> items) {
  if (items.size() <= 2) {
    return {items.begin(), items.end()};
  }
  const auto left = interleave_halves(items.first(items.size() / 2));
  const auto right = interleave_halves(items.subspan(items.size() / 2));
  std::vector<std::int64_t> result;
  result.reserve(items.size());
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (i < left.size()) {
      result.push_back(left[i]);
    }
    result.push_back(right[i]);
  }
  return result;
}

struct Subset {
  std::int64_t begin;
  std::int64_t end;
};

Subset checked_subset(const SharderInput& input) {
  const std::int64_t total =
      !input.shard_ends.empty()
          ? input.shard_ends.back()
          : std::accumulate(input.shard_counts.begin(), input.shard_counts.end(), std::int64_t{0});
  const Subset subset{input.begin.value_or(0), input.end.value_or(total)};
  if (subset.begin < 0 || subset.begin > subset.end || subset.end > total) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("subset [{}, {}) is not within the {} samples of the split",
                            subset.begin, subset.end, total));
  }
  if (input.logical_shard_count < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("logical_shard_count is {}, but must be at least 1",
                            input.logical_shard_count));
  }
  if (input.max_samples_per_sequence && *input.max_samples_per_sequence < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("max_samples_per_sequence is {}, but must be at least 1",
                            *input.max_samples_per_sequence));
  }
  return subset;
}

// Appends the ends of the slices of [begin, end), a range within one tar.
void cut_piece(std::int64_t begin, std::int64_t end, const std::optional<std::int64_t>& longest,
               std::vector<std::int64_t>& bounds) {
  const std::int64_t length = end - begin;
  if (longest && static_cast<double>(length) > static_cast<double>(*longest) * 1.5) {
    // Python's round(), which rounds halves to even like nearbyint() in the default rounding mode.
    const auto pieces = std::max<std::int64_t>(
        static_cast<std::int64_t>(
            std::nearbyint(static_cast<double>(length) / static_cast<double>(*longest))),
        1);
    const double step = static_cast<double>(length) / static_cast<double>(pieces);
    for (std::int64_t i = 1; i < pieces; ++i) {
      bounds.push_back(begin + static_cast<std::int64_t>(static_cast<double>(i) * step));
    }
  }
  bounds.push_back(end);
}

}  // namespace

std::vector<std::int64_t> generalized_bit_reversal(std::int64_t n) {
  std::vector<std::int64_t> items(static_cast<std::size_t>(n));
  std::iota(items.begin(), items.end(), std::int64_t{0});
  return interleave_halves(items);
}

std::vector<std::pair<std::int64_t, std::int64_t>> divide_samples(const SharderInput& input) {
  const Subset subset = checked_subset(input);
  const std::int64_t count = input.logical_shard_count;
  const std::int64_t share = (subset.end - subset.begin) / count;
  const std::int64_t remainder = (subset.end - subset.begin) % count;
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (input.division == Division::kEnergon) {
    order = interleave_halves(order);
  }
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(count));
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t rotated = ((k - input.rotation_offset) % count + count) % count;
    lengths[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])] =
        share + (rotated < remainder ? 1 : 0);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  ranges.reserve(lengths.size());
  std::int64_t position = subset.begin;
  for (const std::int64_t length : lengths) {
    ranges.emplace_back(position, position + length);
    position += length;
  }
  return ranges;
}

std::pair<std::int64_t, std::int64_t> share_of_samples(const SharderInput& input,
                                                       int logical_shard) {
  if (input.division == Division::kEnergon) {
    return divide_samples(input)[static_cast<std::size_t>(logical_shard)];
  }
  const Subset subset = checked_subset(input);
  const std::int64_t count = input.logical_shard_count;
  const std::int64_t share = (subset.end - subset.begin) / count;
  const std::int64_t remainder = (subset.end - subset.begin) % count;
  // The logical shards from `first` on (wrapping around) have one sample more.
  const std::int64_t first = (input.rotation_offset % count + count) % count;
  const auto larger_before = [&](std::int64_t shard) {
    return std::max<std::int64_t>(std::min(shard, first + remainder) - first, 0) +
           std::max<std::int64_t>(std::min(shard, first + remainder - count), 0);
  };
  const auto begin_of = [&](std::int64_t shard) {
    return subset.begin + shard * share + larger_before(shard);
  };
  return {begin_of(logical_shard), begin_of(std::int64_t{logical_shard} + 1)};
}

std::vector<std::int64_t> slice_bounds(const SharderInput& input, int logical_shard) {
  if (logical_shard < 0 || logical_shard >= input.logical_shard_count) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("logical shard {} does not exist, there are only {}", logical_shard,
                            input.logical_shard_count));
  }
  const auto [begin, end] = share_of_samples(input, logical_shard);
  std::vector<std::int64_t> bounds{begin};
  const auto first = std::upper_bound(input.shard_ends.begin(), input.shard_ends.end(), begin) -
                     input.shard_ends.begin();
  std::int64_t shard_end = first == 0 ? 0 : input.shard_ends[static_cast<std::size_t>(first) - 1];
  for (auto shard = static_cast<std::size_t>(first);
       shard < input.shard_counts.size() && shard_end < end; ++shard) {
    const std::int64_t piece_begin = std::max(begin, shard_end);
    shard_end += input.shard_counts[shard];
    const std::int64_t piece_end = std::min(end, shard_end);
    if (piece_begin < piece_end) {
      cut_piece(piece_begin, piece_end, input.max_samples_per_sequence, bounds);
    }
  }
  return bounds;
}

}  // namespace energon
