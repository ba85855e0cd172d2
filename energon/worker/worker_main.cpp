#include "energon/worker/worker_main.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "energon/process/os_error.h"
#include "energon/worker/batch_producer.h"
#include "energon/worker/epoch_gate.h"
#include "energon/worker/protocol.h"
#include "energon/worker/stream_checkpoints.h"
#include "energon/worker/worker_beginning.h"
#include "io/error.h"

namespace energon {
namespace {

std::jthread start_thread(std::function<void()> body) {
  try {
    return std::jthread(std::move(body));
  } catch (const std::system_error& error) {
    throw os_error("cannot start the command thread of a worker", error.code().value());
  }
}

/// The command thread: serves commands until the channel is closed or the parent is gone.
void serve_commands(WorkerEndpoint& channel, const StreamCheckpoints& checkpoints,
                    const ParentWatch& watch, EpochGate& gate) {
  const Wait wait{.deadline = kNever, .peer_gone = watch.descriptors()};
  while (true) {
    const RingUnit unit = channel.commands().read(wait);
    if (unit.status != RingStatus::kItem) {
      break;
    }
    Command command;
    std::memcpy(&command, unit.bytes.data(), std::min(sizeof(command), unit.bytes.size()));
    channel.commands().release();
    switch (command.kind) {
      case CommandKind::kNextEpoch:
        gate.start_epoch(static_cast<std::int64_t>(command.argument));
        break;
      case CommandKind::kGetCheckpoint: {
        const auto index = checkpoints.of(command.stream).newest_not_after(command.argument);
        const CheckpointAnswer answer{.stream = command.stream,
                                      .found = index ? 1U : 0U,
                                      .delivered = command.argument,
                                      .index = index.value_or(0)};
        const RingSpace space = channel.results().begin(sizeof(answer), wait);
        if (space.status == RingStatus::kItem) {
          std::memcpy(space.bytes.data(), &answer, sizeof(answer));
          channel.results().commit();
        }
        break;
      }
    }
  }
  gate.close();
}

/// Makes and sends batches until the channel is closed, or sends why it cannot.
void produce(WorkerStart& start, WorkerEndpoint& channel, StreamCheckpoints& checkpoints,
             EpochGate& gate, const PipelineFactory& make_pipeline, const LoaderOptions& options) {
  BatchProducer producer(start, channel, checkpoints, gate, make_pipeline, options);
  std::optional<Error> failure;
  try {
    producer.run(decode_beginning(as_text(start.payload)));
  } catch (const Error& error) {
    failure = error;
  } catch (const std::bad_alloc&) {
    failure = Error(ErrorCode::kResourceExhausted, "the worker has no memory left");
  } catch (const std::exception& error) {
    // What is ours throws Error: it comes from a dataset, a factory or a handler of the user.
    failure = Error(ErrorCode::kUserFunction, fmt::format("the pipeline failed: {}", error.what()));
  } catch (...) {
    failure =
        Error(ErrorCode::kUserFunction, "the pipeline threw something that is no std::exception");
  }
  if (failure) {
    producer.send_failure(*failure);  // nobody reads it if it says that the channel was closed
    gate.wait_for_close();
  }
}

}  // namespace

int run_worker(WorkerStart& start, const PipelineFactory& make_pipeline,
               const LoaderOptions& options) {
  WorkerEndpoint channel(std::move(start.descriptors));
  StreamCheckpoints checkpoints(channel, options, start.worker_id);
  EpochGate gate;
  std::jthread command_thread =
      start_thread([&] { serve_commands(channel, checkpoints, *start.watch, gate); });
  try {
    produce(start, channel, checkpoints, gate, make_pipeline, options);
  } catch (...) {
    channel.commands().close();  // ends the command thread
    throw;
  }
  return 0;
}

}  // namespace energon
