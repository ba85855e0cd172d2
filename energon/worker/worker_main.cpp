#include "energon/worker/worker_main.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/process/fork_server.h"
#include "energon/process/os_error.h"
#include "energon/process/shared_memory.h"
#include "energon/process/worker_channel.h"
#include "energon/read/leaf_readers.h"
#include "energon/read/read_helper.h"
#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/stage/debug_log.h"
#include "energon/worker/batch_sender.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/protocol.h"
#include "energon/worker/slot_allocator.h"
#include "energon/worker/statistics_block.h"
#include "energon/worker/worker_checkpoints.h"
#include "io/byte_codec.h"
#include "io/bytes.h"
#include "io/concurrency.h"
#include "io/error.h"
#include "io/file.h"

namespace energon {
namespace {

// Passes events from the command thread of a worker to its main thread: the start of an epoch, a
// failure to serve commands, and the end.

/// start_epoch() and fail() are called by the command thread, check() and the waits by the main
/// thread, close() and is_closed() by both.
class EpochGate {
 public:
  void start_epoch(std::int64_t epoch) {
    const MutexLock lock(mutex_);
    epoch_ = epoch;
    changed_.notify_all();
  }
  /// Makes check() and wait_for_epoch() throw `error` from now on.
  void fail(Error error) {
    const MutexLock lock(mutex_);
    failure_ = std::move(error);
    changed_.notify_all();
  }
  void close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  bool is_closed() {
    const MutexLock lock(mutex_);
    return closed_;
  }

  /// Throws the Error of the command thread, if it has failed.
  void check() {
    const MutexLock lock(mutex_);
    throw_if_failed();
  }
  /// Waits until epoch `epoch` may start. Returns false if the channel was closed. Throws like
  /// check().
  bool wait_for_epoch(std::int64_t epoch) {
    const MutexLock lock(mutex_);
    while (!closed_ && !failure_ && epoch_ < epoch) {
      changed_.wait(mutex_);
    }
    throw_if_failed();
    return !closed_;
  }
  /// Waits until the channel is closed.
  void wait_for_close() {
    const MutexLock lock(mutex_);
    while (!closed_) {
      changed_.wait(mutex_);
    }
  }

 private:
  void throw_if_failed() const ENERGON_REQUIRES(mutex_) {
    if (failure_) {
      throw *failure_;
    }
  }

  Mutex mutex_;
  Condition changed_;
  std::int64_t epoch_ ENERGON_GUARDED_BY(mutex_) = 0;
  std::optional<Error> failure_ ENERGON_GUARDED_BY(mutex_);
  bool closed_ ENERGON_GUARDED_BY(mutex_) = false;
};

// The main thread of a worker: makes the batches of its logical shards in turn and sends them.

/// Used by the worker's main thread.
class BatchProducer {
 public:
  /// All arguments must outlive the producer.
  BatchProducer(WorkerStart& start, WorkerEndpoint& channel, WorkerCheckpoints& checkpoints,
                EpochGate& gate, const PipelineFactory& make_pipeline,
                const LoaderOptions& options);

  /// Makes and sends batches until the channel is closed. Throws what the pipelines throw.
  void run(const WorkerAssignment& assignment);

  /// See BatchSender::send_failure().
  void send_failure(const Error& error) { sender_.send_failure(error); }

 private:
  struct LogicalShard {
    std::size_t local_index;  // in the rank
    int logical_shard;
    SavableDatasetCheckpoint begin;               // its start position
    std::unique_ptr<PositionedDataset> pipeline;  // null until first needed

    std::int64_t index() const { return pipeline ? pipeline->index() : begin.index + begin.offset; }
  };

  PipelineContext context_of(std::size_t local_index);
  std::vector<LogicalShard> begin_logical_shards(const WorkerAssignment& assignment);
  void restore(LogicalShard& logical_shard);
  bool take_turn(LogicalShard& logical_shard, Turns& turns, std::size_t number, DebugLog& log);
  std::optional<PackedSample> make_batch(LogicalShard& logical_shard, std::int64_t epoch,
                                         DebugLog& log);
  void log_yield(DebugLog& log, const Sample& batch) const;

  const int worker_;
  const PipelineFactory& make_pipeline_;
  const LoaderOptions& options_;
  WorkerEndpoint& channel_;
  WorkerCheckpoints& checkpoints_;
  EpochGate& gate_;
  const Wait wait_;
  SlotAllocator allocator_;
  const std::shared_ptr<BatchMemory> batch_memory_ = std::make_shared<BatchMemory>(allocator_);
  const std::shared_ptr<ReadHelper> read_helper_;  // null if there is only one core
  LoaderMonitor monitor_;
  const std::shared_ptr<LeafReaders> readers_;  // of all logical shards
  CpuShare making_;
  BatchSender sender_;
  std::int64_t batches_ = 0;  // finished in this run
};

BatchProducer::BatchProducer(WorkerStart& start, WorkerEndpoint& channel,
                             WorkerCheckpoints& checkpoints, EpochGate& gate,
                             const PipelineFactory& make_pipeline, const LoaderOptions& options)
    : worker_(start.worker_id),
      make_pipeline_(make_pipeline),
      options_(options),
      channel_(channel),
      checkpoints_(checkpoints),
      gate_(gate),
      wait_{.deadline = kNever, .peer_gone = start.watch->descriptors()},
      allocator_(channel.arena(), wait_),
      read_helper_(ReadHelper::can_help() ? std::make_shared<ReadHelper>() : nullptr),
      monitor_(statistics_in(channel.statistics())),
      readers_(std::make_shared<LeafReaders>(read_helper_)),
      sender_(channel, checkpoints, monitor_, wait_) {
  monitor_.set_on_replayed([this] { channel_.status().advance(); });
  // Threads of file caches read until the process ends, so keep the counter mapped until then.
  static std::shared_ptr<SharedMemory> kept;
  kept = channel.memory();
  count_reads_in(channel.status().bytes_read);
  monitor_.set_on_many_reports([this] {
    if (!sender_.send_reports()) {
      throw Error(ErrorCode::kCancelled, "the loader was closed");
    }
  });
}

void BatchProducer::run(const WorkerAssignment& assignment) {
  DebugLog log(options_.debug_log_path, options_.worker_config, worker_);
  std::vector<LogicalShard> logical_shards = begin_logical_shards(assignment);
  std::vector<Turn> places;
  for (const SavableDatasetCheckpoint& checkpoint : assignment.checkpoints) {
    places.push_back(checkpoint.turn);
  }
  Turns turns(std::move(places), assignment.epoch);
  std::int64_t batches_before = 0;  // at the start of the epoch
  while (true) {
    gate_.check();
    if (const std::optional<std::size_t> turn = turns.next()) {
      if (!take_turn(logical_shards[*turn], turns, *turn, log)) {
        return;
      }
      continue;
    }
    // An endless loop over unusable data waits for the parent, which detects it.
    const bool may_go_on = options_.epoch_policy == EpochPolicy::kLoop && batches_ > batches_before;
    if (!may_go_on && !gate_.wait_for_epoch(turns.epoch() + 1)) {
      return;
    }
    channel_.status().advance();  // LiveWorker::died_before_epoch()
    turns.start_epoch();
    batches_before = batches_;
  }
}

// Makes and sends the next batch of logical shard `local_index`, or reports the end of its epoch.
// Returns false if the channel was closed.
bool BatchProducer::take_turn(LogicalShard& logical_shard, Turns& turns, std::size_t number,
                              DebugLog& log) {
  const Turn turn = turns.of(number);
  std::optional<PackedSample> batch = make_batch(logical_shard, turn.epoch, log);
  if (!sender_.send_reports()) {
    return false;
  }
  if (!batch) {
    turns.end_epoch(number);
    return sender_.send_epoch_end(logical_shard.local_index, *logical_shard.pipeline);
  }
  turns.take(number);
  ++batches_;
  const bool replay_makes_it = logical_shard.pipeline->dataset().skip_makes_items();
  return sender_.send_batch(
      std::move(*batch), logical_shard.local_index, *logical_shard.pipeline,
      {.is_first_of_epoch = turn.count == 0,
       .replay_time = replay_makes_it ? making_.last_call() : std::chrono::nanoseconds(0)});
}

PipelineContext BatchProducer::context_of(std::size_t local_index) {
  return {.config = options_.worker_config,
          .local_index = static_cast<int>(local_index),
          .memory = allocator_,
          .batch_memory = batch_memory_,
          .monitor = monitor_,
          .readers = readers_};
}

// A logical shard that begins at a saved state gets its pipeline at its first turn.
std::vector<BatchProducer::LogicalShard> BatchProducer::begin_logical_shards(
    const WorkerAssignment& assignment) {
  const auto workers = static_cast<std::size_t>(options_.worker_config.workers_per_rank());
  std::vector<LogicalShard> logical_shards;
  logical_shards.reserve(assignment.checkpoints.size());
  for (const SavableDatasetCheckpoint& begin : assignment.checkpoints) {
    const std::size_t number = static_cast<std::size_t>(worker_) + logical_shards.size() * workers;
    const PipelineContext context = context_of(number);
    LogicalShard& logical_shard =
        logical_shards.emplace_back(LogicalShard{number, context.logical_shard(), begin, nullptr});
    SavableDatasetCheckpoint first = begin;
    first.offset = 0;
    if (!begin.state) {
      logical_shard.pipeline = std::make_unique<PositionedDataset>(make_pipeline_(context));
      first.state = logical_shard.pipeline->dataset().save_state();
    }
    checkpoints_.of(number).store(first);
    if (logical_shard.pipeline) {
      restore(logical_shard);
    }
    channel_.status().advance();
  }
  return logical_shards;
}

// Stores a checkpoint after a replay. Otherwise each of several short runs would replay at least as
// much as the run before it.
void BatchProducer::restore(LogicalShard& logical_shard) {
  if (logical_shard.pipeline) {
    logical_shard.pipeline->restore(logical_shard.begin, logical_shard.begin.turn.epoch,
                                    std::nullopt, monitor_);
  } else {
    logical_shard.pipeline =
        restored_pipeline(make_pipeline_, context_of(logical_shard.local_index),
                          logical_shard.begin, logical_shard.begin.turn.epoch);
  }
  if (logical_shard.begin.offset > 0) {
    // The ring contains only the start checkpoint of the logical shard, so there is room.
    checkpoints_.of(logical_shard.local_index).store(*logical_shard.pipeline);
  }
  logical_shard.begin = {};
}

std::optional<PackedSample> BatchProducer::make_batch(LogicalShard& logical_shard,
                                                      std::int64_t epoch, DebugLog& log) {
  channel_.status().set_item({static_cast<std::uint64_t>(logical_shard.logical_shard),
                              static_cast<std::uint64_t>(logical_shard.index())});
  std::optional<PackedSample> packed;
  {
    const BusyTime busy(monitor_.block(), making_, channel_.arena());
    if (!logical_shard.pipeline) {
      restore(logical_shard);
    }
    if (std::optional<Sample> batch =
            logical_shard.pipeline->next(logical_shard.logical_shard, epoch)) {
      batch_memory_->end_batch();
      log_yield(log, *batch);
      packed = allocator_.pack(std::move(*batch));
    }
  }
  if (read_helper_) {
    count_helper(monitor_.block(), read_helper_->take_cpu_time());
  }
  channel_.status().advance();
  return packed;
}

void BatchProducer::log_yield(DebugLog& log, const Sample& batch) const {
  if (log.enabled()) {
    log.write({{"t", "yield_batch"},
               {"r", options_.worker_config.rank},
               {"w", worker_},
               {"idx", batches_},
               {"keys", batch.keys.strings()}});
  }
}

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
    throw Error(ErrorCode::kCorruptData, fmt::format("a command to a worker has unknown kind {}",
                                                     static_cast<std::uint32_t>(command.kind)));
  }
  return command;
}

/// Serves commands until the channel is closed or the parent is gone. Throws Error: kCorruptData if
/// the ring or a command is damaged.
void serve_commands(WorkerEndpoint& channel, const WorkerCheckpoints& checkpoints,
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
        const auto index = checkpoints.of(command.local_index).newest_not_after(command.argument);
        const CheckpointAnswer answer{.local_index = command.local_index,
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

/// Waits like serve_commands(), without reading the command ring.
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

/// The body of the command thread. If it fails, the main thread reports why.
void run_command_thread(WorkerEndpoint& channel, const WorkerCheckpoints& checkpoints,
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

/// Makes and sends batches until the channel is closed, or sends the error that prevents it.
void produce(WorkerStart& start, WorkerEndpoint& channel, WorkerCheckpoints& checkpoints,
             EpochGate& gate, const PipelineFactory& make_pipeline, const LoaderOptions& options) {
  BatchProducer producer(start, channel, checkpoints, gate, make_pipeline, options);
  std::optional<Error> failure;
  try {
    producer.run(decode_assignment(as_text(start.payload)));
  } catch (...) {
    // This library throws only Error; everything else comes from user code.
    failure = to_error(std::current_exception(), "the pipeline");
  }
  if (failure) {
    producer.send_failure(*failure);  // if the channel was closed, nobody reads it
    gate.wait_for_close();
  }
}

}  // namespace

int run_worker(WorkerStart& start, const PipelineFactory& make_pipeline,
               const LoaderOptions& options) {
  WorkerEndpoint channel(std::move(start.descriptors));
  WorkerCheckpoints checkpoints(channel, options, start.worker_id);
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

namespace {

constexpr std::size_t kLeastCheckpointBytes = 45;

}  // namespace

std::string encode_assignment(const WorkerAssignment& assignment) {
  ByteWriter writer;
  writer.i64(assignment.epoch);
  writer.u32(static_cast<std::uint32_t>(assignment.checkpoints.size()));
  for (const SavableDatasetCheckpoint& checkpoint : assignment.checkpoints) {
    writer.i64(checkpoint.turn.epoch);
    writer.i64(checkpoint.turn.count);
    encode_checkpoint(writer, checkpoint);
  }
  return writer.take();
}

WorkerAssignment decode_assignment(std::string_view bytes) {
  ByteReader reader(bytes, "the assignment of a worker");
  WorkerAssignment assignment;
  assignment.epoch = reader.i64();
  assignment.checkpoints.resize(reader.count(kLeastCheckpointBytes));
  for (SavableDatasetCheckpoint& checkpoint : assignment.checkpoints) {
    const Turn turn{.epoch = reader.i64(), .count = reader.i64()};
    checkpoint = decode_checkpoint(reader);
    checkpoint.turn = turn;
  }
  reader.finish();
  return assignment;
}

}  // namespace energon
