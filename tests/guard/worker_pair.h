// Both ends of a worker's channel in one process and one thread, without a fork: runs the worker's
// and the trainer's work for a batch.

#pragma once

#include <memory>

#include "energon/checkpoint/positioned_dataset.h"
#include "energon/process/worker_channel.h"
#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/worker/batch_sender.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/slot_allocator.h"
#include "energon/worker/statistics_block.h"
#include "energon/worker/transport.h"
#include "energon/worker/worker_checkpoints.h"

namespace energon::testing {

class WorkerPair {
 public:
  /// `make_pipeline` makes an endless pipeline.
  explicit WorkerPair(const PipelineFactory& make_pipeline);

  /// Makes the next batch, packs and sends it, like BatchProducer. Throws Error if there is no
  /// space, because only this thread could free some.
  void send();

  /// Takes and decodes the oldest batch that was sent, like WorkerGroup.
  Sample receive();

 private:
  const LoaderOptions options_;
  ParentEndpoint trainer_;
  WorkerEndpoint worker_;
  WorkerCheckpoints checkpoints_;
  LoaderMonitor monitor_;
  SlotAllocator allocator_;
  BatchSender sender_;
  const std::unique_ptr<PositionedDataset> pipeline_;
  NumberedShards shards_;
};

}  // namespace energon::testing
