// The body of a worker process: runs the pipelines of its logical shards in turn and sends their
// batches.
//
// A worker has three or four threads. The main thread makes batches, stores checkpoints and commits
// to the sample ring. The command thread handles get_checkpoint and the start of epochs, so that
// neither waits for a slow sample. A watchdog ends the process with its parent. The first large
// batch starts a thread that helps to read (energon/read/read_helper.h). energon/worker/protocol.h
// describes the states and messages.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/process/fork_server.h"
#include "energon/stage/dataset.h"
#include "energon/worker/loader_options.h"

namespace energon {

/// Runs until the channel is closed. Returns the exit code. Sends failures of the pipeline and of
/// the command thread to the parent. Throws failures that occur before the channel exists; the
/// parent gets these from ForkServer::death_of().
int run_worker(WorkerStart& start, const PipelineFactory& make_pipeline,
               const LoaderOptions& options);

// The start position of a worker: the payload of the request that spawns it.

/// The start position of a worker.
struct WorkerAssignment {
  std::vector<SavableDatasetCheckpoint> checkpoints;  ///< logical shards of the worker, in order
  std::int64_t epoch = 0;                             ///< the epoch to start in
};

/// Not a stable format: both sides are the same build.
std::string encode_assignment(const WorkerAssignment& assignment);
/// Throws Error (kCorruptData).
WorkerAssignment decode_assignment(std::string_view bytes);

}  // namespace energon
