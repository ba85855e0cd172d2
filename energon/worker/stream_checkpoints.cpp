#include "energon/worker/stream_checkpoints.h"

#include <cstdint>

#include "energon/worker/channel_sizes.h"

namespace energon {

StreamCheckpoints::StreamCheckpoints(WorkerEndpoint& channel, const LoaderOptions& options,
                                     int worker)
    : worker_(static_cast<std::size_t>(worker)),
      workers_(static_cast<std::size_t>(options.worker_config.workers_per_rank())) {
  const ChannelOptions sizes = channel_options(options, worker);
  for (std::uint64_t ring = 0; ring < sizes.checkpoint_rings; ++ring) {
    streams_.emplace_back(channel.checkpoints(ring), sizes.checkpoints.slots,
                          options.checkpoint_every_batches);
  }
}

}  // namespace energon
