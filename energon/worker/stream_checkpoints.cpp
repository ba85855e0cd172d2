#include "energon/worker/stream_checkpoints.h"

#include <cstdint>

#include "energon/order/worker_config.h"

namespace energon {

StreamCheckpoints::StreamCheckpoints(WorkerEndpoint& channel, const LoaderOptions& options,
                                     int worker)
    : worker_(static_cast<std::size_t>(worker)),
      workers_(static_cast<std::size_t>(options.worker_config.workers_per_rank())) {
  const std::int64_t streams = share_of(options.worker_config.stream_count(), worker,
                                        options.worker_config.workers_per_rank());
  for (std::int64_t stream = 0; stream < streams; ++stream) {
    CheckpointWriter& ring = channel.checkpoints(static_cast<std::size_t>(stream));
    streams_.emplace_back(ring, ring.slots(), options.checkpoint_every_batches);
  }
}

}  // namespace energon
