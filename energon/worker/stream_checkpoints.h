// The checkpoints of all streams of a worker.

#pragma once

#include <cstddef>
#include <deque>

#include "energon/process/worker_channel.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/worker_checkpoints.h"

namespace energon {

/// By the stream's number in the rank. Thread rules as those of WorkerCheckpoints.
class StreamCheckpoints {
 public:
  /// `channel` must outlive this object.
  StreamCheckpoints(WorkerEndpoint& channel, const LoaderOptions& options, int worker);

  WorkerCheckpoints& of(std::size_t stream) { return streams_.at((stream - worker_) / workers_); }
  const WorkerCheckpoints& of(std::size_t stream) const {
    return streams_.at((stream - worker_) / workers_);
  }

 private:
  const std::size_t worker_;
  const std::size_t workers_;
  std::deque<WorkerCheckpoints> streams_;  // neither copied nor moved
};

}  // namespace energon
