// The sizes of the memory that a worker shares with the parent, and how they are reduced to fit the
// address space.

#pragma once

#include <cstdint>

#include "energon/process/shared_memory.h"
#include "energon/process/worker_channel.h"
#include "energon/worker/loader_options.h"

namespace energon {

/// Maximum number of batches that a worker may be ahead: LoaderOptions::prefetch_factor, or the
/// limit on small batches if it is unset.
std::int64_t most_batches_ahead(const LoaderOptions& options);

/// Maximum number of checkpoints of a logical shard that are kept only as history.
inline constexpr std::int64_t kMostHistoryCheckpoints = 4096;

/// The share of a logical shard in LoaderOptions::checkpoint_history_bytes; 0 without a history.
std::uint64_t history_bytes_per_logical_shard(const LoaderOptions& options);

/// The sizes of the channel of worker `worker`, equal on both sides.
ChannelOptions channel_options(const LoaderOptions& options, int worker);

// Address space for the arenas of workers.
//
// An arena reserves a multiple of its limit (energon/process/arena.h), such as 72 GiB for 2 GiB,
// and the loader's process maps the arenas of all its workers. Reservations take no memory, but
// they count against a limit of address space (`ulimit -v`), which many login nodes set.

/// Returns `channel`, the options of each of `workers` channels, reduced to fit into `space`.
/// Options that fit are unchanged. Otherwise the workers share half of `space`: at most 3
/// checkpoints of a logical shard are kept, the arena gets fewer slots of each size and, if that is
/// not enough, a lower limit. The limit is never above the machine's memory. Throws Error
/// (kResourceExhausted), with advice, if not even an arena of 1 MiB fits.
ChannelOptions fit_into(ChannelOptions channel, const AddressSpace& space, int workers);

}  // namespace energon
