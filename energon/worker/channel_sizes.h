// The sizes of the memory that a worker shares with the parent.

#pragma once

#include <cstdint>

#include "energon/process/worker_channel.h"
#include "energon/worker/loader_options.h"

namespace energon {

/// Maximum number of batches that a worker may be ahead: LoaderOptions::prefetch_factor, or what
/// limits small batches if it is absent.
std::int64_t most_batches_ahead(const LoaderOptions& options);

/// Maximum number of checkpoints of a stream that are kept only as history.
inline constexpr std::int64_t kMostHistoryCheckpoints = 4096;

/// The share of a stream in LoaderOptions::checkpoint_history_bytes; 0 without a history.
std::uint64_t history_bytes_of_stream(const LoaderOptions& options);

/// The sizes of the channel of worker `worker`, equal on both sides.
ChannelOptions channel_options(const LoaderOptions& options, int worker);

}  // namespace energon
