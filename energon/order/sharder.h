// Divides the samples of a split over the logical shards of a job and cuts each share into slices.
//
// Pure functions. Shares differ by at most one sample, and no slice crosses the boundary of a tar.
// Division::kEnergon reproduces Energon's Sharder bit for bit: a generalized bit reversal spreads
// the larger shares.

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
  /// Running sums of these numbers, which avoid a walk over all tars. Empty if unknown.
  std::span<const std::int64_t> shard_ends = {};
  /// Samples [begin, end) of the concatenation of all tars; unset means all.
  std::optional<std::int64_t> begin = std::nullopt;
  std::optional<std::int64_t> end = std::nullopt;
  /// Logical shards of the job, at least 1.
  int logical_shard_count = 1;
  Division division = Division::kEnergon;
  /// Rotates which logical shards get the remainder; the datasets of a blend use different ones.
  std::int64_t rotation_offset = 0;
  /// Approximate maximum of samples per slice. If unset, a slice is the part of the share that is
  /// stored in one tar.
  std::optional<std::int64_t> max_samples_per_sequence = std::nullopt;
};

/// The range [first, second) of global sample indexes for each logical shard.
std::vector<std::pair<std::int64_t, std::int64_t>> divide_samples(const SharderInput& input);

/// The range of `logical_shard` in divide_samples(input). With Division::kEven it takes the same
/// time for any number of logical shards. Requires: 0 <= logical_shard < input.logical_shard_count.
std::pair<std::int64_t, std::int64_t> share_of_samples(const SharderInput& input,
                                                       int logical_shard);

/// The slice bounds of one logical shard: strictly increasing global sample indexes. Slice i is
/// [bounds[i], bounds[i+1]). A single bound means that the logical shard has no samples. Throws
/// Error (kInvalidArgument) if begin or end lies outside the data.
std::vector<std::int64_t> slice_bounds(const SharderInput& input, int logical_shard);

/// 0 … n-1 reordered so that neighbors are far apart; for powers of two, the bit reversal.
std::vector<std::int64_t> generalized_bit_reversal(std::int64_t n);

}  // namespace energon
