// Divides the samples of a split over the logical shards of a job and cuts each share into slices.
//
// Pure functions; shares differ by at most one sample, slices never cross a tar. With
// Division::kEnergon the algorithm is that of Energon's Sharder, reproduced bit for bit (the larger
// shares are spread by a generalized bit reversal).

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "energon/order/worker_config.h"

namespace energon {

struct SharderInput {
  /// Samples in each tar, in the order of the split.
  std::span<const std::int64_t> shard_counts;
  /// Samples [begin, end) of the concatenation of all tars; absent: all.
  std::optional<std::int64_t> begin = std::nullopt;
  std::optional<std::int64_t> end = std::nullopt;
  /// Logical shards of the job, at least 1.
  int logical_shard_count = 1;
  Division division = Division::kEnergon;
  /// Rotates which logical shards get the remainder; the datasets of a blend use different ones.
  std::int64_t rotation_offset = 0;
  /// Longest slice is about this many samples; absent: a slice is a tar's part of the share.
  std::optional<std::int64_t> max_samples_per_sequence = std::nullopt;
};

/// The range [first, second) of global sample indexes that belongs to each logical shard.
std::vector<std::pair<std::int64_t, std::int64_t>> divide_samples(const SharderInput& input);

/// Slice bounds of one logical shard: strictly increasing global sample indexes, slice i is
/// [bounds[i], bounds[i+1]). One bound: the logical shard has no samples. Throws Error
/// (kInvalidArgument) for bounds outside the data.
std::vector<std::int64_t> slice_bounds(const SharderInput& input, int logical_shard);

/// 0 … n-1 reordered so that neighbours are far apart; for powers of two this is the bit reversal.
std::vector<std::int64_t> generalized_bit_reversal(std::int64_t n);

}  // namespace energon
