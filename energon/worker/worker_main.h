// The body of a worker process: runs the pipelines of its logical shards in turn and sends their
// batches.
//
// Three threads, or four. The main thread makes batches, stores checkpoints and commits to the
// sample ring; the command thread serves get_checkpoint and the start of epochs, so that neither
// waits for a slow sample; a watchdog ends the process with its parent; the first large batch
// starts one that helps to read (energon/read/read_helper.h). The states and the messages are in
// energon/worker/protocol.h.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/process/fork_server.h"
#include "energon/process/worker_channel.h"
#include "energon/stage/pipeline.h"
#include "energon/worker/loader_options.h"

namespace energon {

/// Sizes of the channel of worker `worker`, the same on both sides.
ChannelOptions channel_options(const LoaderOptions& options, int worker);

/// What a worker is started with: where it begins.
struct WorkerBeginning {
  std::vector<SavableDatasetCheckpoint> streams;  ///< of the worker, in their order
  std::int64_t epoch = 0;                         ///< the epoch to be in
};

std::string encode_beginning(const WorkerBeginning& beginning);

/// Runs until the channel is closed; what it returns is the exit code. Failures of the pipeline are
/// sent to the parent; it throws those before there is a channel to send them
/// (ForkServer::death_of).
int run_worker(WorkerStart& start, const PipelineFactory& make_pipeline,
               const LoaderOptions& options);

}  // namespace energon
