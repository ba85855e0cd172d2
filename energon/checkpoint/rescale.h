// Converts a job's position to another layout.
//
// The logical shards of a job are assigned to other ranks and workers. No logical shard changes, so
// no sample is lost or repeated, and the order within each one stays the same. A pure function over
// states, which reads neither data nor files. docs/rescaling.md explains what stays equal.

#pragma once

#include <cstdint>
#include <optional>

#include "energon/checkpoint/job_state.h"

namespace energon {

/// What to do if the number of logical shards is not a multiple of the new world size.
enum class Uneven : std::uint8_t {
  kRefuse,  ///< an Error that lists the nearest world sizes that divide it
  kSpread,  ///< some ranks get one logical shard more than others
};

struct JobLayout {
  int world_size = 1;
  int num_workers = 0;                                          ///< per rank
  std::optional<std::int64_t> micro_batch_size = std::nullopt;  ///< unset means unchanged
  Uneven uneven = Uneven::kRefuse;
};

/// Returns `job` on `layout`. If the job did not set the number of logical shards and the new
/// layout has exactly one worker per logical shard, the number stays unset, as in Energon.
/// Otherwise WorkerConfig::logical_shards is set from now on. Throws Error: kInvalidArgument for an
/// invalid layout, or, with numbers that would work, for more workers than logical shards or a
/// refused uneven division; kMismatch if the micro batch size cannot change as requested;
/// kUnsupported if the position does not belong to a loader, or for an adapter that cannot be
/// rescaled. Converts the positions of adapters, too.
SavableJobState rescale(const SavableJobState& job, const JobLayout& layout);

}  // namespace energon
