#include "energon/worker/worker_main.h"

#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/process/os_error.h"
#include "energon/worker/batch_producer.h"
#include "energon/worker/epoch_gate.h"
#include "energon/worker/protocol.h"
#include "energon/worker/stream_checkpoints.h"
#include "energon/worker/worker_beginning.h"
#include "io/bytes.h"
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

Command command_in(ByteView unit) {
  Command command;
  if (unit.size() != sizeof(command)) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("a command to a worker has {} bytes, expected {}", unit.size(),
                            sizeof(command)));
  }
  std::memcpy(&command, unit.data(), sizeof(command));
  if (command.kind != CommandKind::kGetCheckpoint && command.kind != CommandKind::kNextEpoch) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("a command to a worker is of kind {}, which does not exist",
                            static_cast<std::uint32_t>(command.kind)));
  }
  return command;
}

/// Serves commands until the channel is closed or the parent is gone. Throws Error: kCorruptData if
/// the ring or a command is damaged.
void serve_commands(WorkerEndpoint& channel, const StreamCheckpoints& checkpoints,
                    const ParentWatch& watch, EpochGate& gate) {
  const Wait wait{.deadline = kNever, .peer_gone = watch.descriptors()};
  while (true) {
    const RingUnit unit = channel.commands().read(wait);
    if (unit.status != RingStatus::kItem) {
      return;
    }
    const Command command = command_in(unit.bytes);
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
}

/// Waits as serve_commands() does, without reading the command ring.
void wait_for_close(WorkerEndpoint& channel, const ParentWatch& watch, EpochGate& gate) {
  std::vector<Waitable> waitables{{channel.commands().doorbell_fd()}};
  for (const int fd : watch.descriptors()) {
    waitables.push_back({fd});
  }
  while (!channel.closing() && !watch.gone() && !gate.is_closed()) {
    wait_any(waitables, kNever);
    channel.commands().finish_wait();
  }
}

/// The body of the command thread. If it cannot go on, the main thread reports why.
void run_command_thread(WorkerEndpoint& channel, const StreamCheckpoints& checkpoints,
                        const ParentWatch& watch, EpochGate& gate) {
  try {
    serve_commands(channel, checkpoints, watch, gate);
  } catch (...) {
    gate.fail(to_error(std::current_exception(), "the command thread of the worker",
                       ErrorCode::kInternal));
    try {
      wait_for_close(channel, watch, gate);
    } catch (const Error&) {  // user code closed our descriptors: the worker ends
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
  } catch (...) {
    // What is ours throws Error: all else comes from a dataset, a factory or a handler of the user.
    failure = to_error(std::current_exception(), "the pipeline");
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
      start_thread([&] { run_command_thread(channel, checkpoints, *start.watch, gate); });
  try {
    produce(start, channel, checkpoints, gate, make_pipeline, options);
  } catch (...) {
    gate.close();
    channel.commands().close();  // wakes and ends the command thread
    throw;
  }
  return 0;
}

}  // namespace energon
