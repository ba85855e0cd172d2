// A job's position on another layout.
//
// The logical shards of a job are dealt to other ranks and workers; none of them is changed, so
// nothing is lost or seen twice, and the order within each stays. A pure function over states:
// nothing is read, neither data nor files. docs/rescaling.md explains what stays equal.

#pragma once

#include <cstdint>
#include <optional>

#include "energon/checkpoint/job_state.h"

namespace energon {

/// What to do when the number of logical shards is no multiple of the new world size.
enum class Uneven : std::uint8_t {
  kRefuse,  ///< an Error that names the nearest world sizes that are
  kSpread,  ///< some ranks get one more than others
};

struct JobLayout {
  int world_size = 1;
  int num_workers = 0;                                          ///< of each rank
  std::optional<std::int64_t> micro_batch_size = std::nullopt;  ///< absent: as it is
  Uneven uneven = Uneven::kRefuse;
};

/// `job` on `layout`. Where the new layout has one worker for each logical shard of a job that did
/// not set their number, it stays one of Energon's layouts; else the number of logical shards is
/// set from now on (WorkerConfig::logical_shards). Throws Error: kInvalidArgument for a layout that
/// does not exist or has more workers than there are logical shards, with those that would do;
/// kMismatch if the micro batch cannot change to that size.
SavableJobState rescale(const SavableJobState& job, const JobLayout& layout);

}  // namespace energon
