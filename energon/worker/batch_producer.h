// The main thread of a worker: makes the batches of its streams in turn and sends them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/process/fork_server.h"
#include "energon/process/shared_memory.h"
#include "energon/process/worker_channel.h"
#include "energon/read/leaf_readers.h"
#include "energon/read/read_helper.h"
#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/stage/debug_log.h"
#include "energon/worker/batch_sender.h"
#include "energon/worker/epoch_gate.h"
#include "energon/worker/loader_monitor.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/slot_allocator.h"
#include "energon/worker/stream_checkpoints.h"
#include "energon/worker/thread_times.h"
#include "energon/worker/worker_beginning.h"
#include "io/error.h"

namespace energon {

/// Used by the worker's main thread.
class BatchProducer {
 public:
  /// All arguments must outlive the producer.
  BatchProducer(WorkerStart& start, WorkerEndpoint& channel, StreamCheckpoints& checkpoints,
                EpochGate& gate, const PipelineFactory& make_pipeline,
                const LoaderOptions& options);

  /// Makes and sends batches until the channel is closed. Throws what the pipelines throw.
  void run(const WorkerBeginning& beginning);

  /// See BatchSender::send_failure().
  void send_failure(const Error& error) { sender_.send_failure(error); }

 private:
  struct Stream {
    std::size_t number;  // in the rank
    int logical_shard;
    SavableDatasetCheckpoint begin;               // where it begins
    std::unique_ptr<PositionedDataset> pipeline;  // null: not yet needed

    std::int64_t index() const { return pipeline ? pipeline->index() : begin.index + begin.offset; }
  };

  PipelineContext context_of(std::size_t stream);
  std::vector<Stream> begin_streams(const WorkerBeginning& beginning);
  void restore(Stream& stream);
  bool take_turn(Stream& stream, Turns& turns, std::size_t number, DebugLog& log);
  std::optional<PackedSample> make_batch(Stream& stream, std::int64_t epoch, DebugLog& log);
  void log_yield(DebugLog& log, const Sample& batch) const;

  const int worker_;
  const PipelineFactory& make_pipeline_;
  const LoaderOptions& options_;
  WorkerEndpoint& channel_;
  StreamCheckpoints& checkpoints_;
  EpochGate& gate_;
  const Wait wait_;
  SlotAllocator allocator_;
  const std::shared_ptr<BatchMemory> made_ = std::make_shared<BatchMemory>(allocator_);
  const std::shared_ptr<ReadHelper> read_helper_;  // null: one core
  LoaderMonitor monitor_;
  const std::shared_ptr<LeafReaders> readers_;  // of all streams
  CpuShare making_;
  BatchSender sender_;
  std::int64_t batches_ = 0;  // made in this run
};

}  // namespace energon
