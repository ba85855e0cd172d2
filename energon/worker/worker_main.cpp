#include "energon/worker/worker_main.h"

#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/positioned_dataset.h"
#include "energon/checkpoint/turns.h"
#include "energon/process/os_error.h"
#include "energon/read/leaf_readers.h"
#include "energon/read/read_helper.h"
#include "energon/stage/debug_log.h"
#include "energon/worker/loader_monitor.h"
#include "energon/worker/protocol.h"
#include "energon/worker/report_transport.h"
#include "energon/worker/slot_allocator.h"
#include "energon/worker/thread_times.h"
#include "energon/worker/transport.h"
#include "energon/worker/worker_checkpoints.h"
#include "io/error.h"
#include "io/mutex.h"

namespace energon {
namespace {

constexpr std::size_t kLeastStreamBytes = 45;  // of a stream's beginning

WorkerBeginning decode_beginning(std::string_view bytes) {
  ByteReader reader(bytes, "the beginning of a worker");
  WorkerBeginning beginning;
  beginning.epoch = reader.i64();
  beginning.streams.resize(reader.count(kLeastStreamBytes));
  for (SavableDatasetCheckpoint& stream : beginning.streams) {
    const Turn turn{.epoch = reader.i64(), .count = reader.i64()};
    stream = decode_checkpoint(reader);
    stream.turn = turn;
  }
  reader.finish();
  return beginning;
}

/// What the command thread tells the main thread.
class EpochGate {
 public:
  void start_epoch(std::int64_t epoch) {
    const MutexLock lock(mutex_);
    epoch_ = epoch;
    changed_.notify_all();
  }
  void close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  /// Waits until epoch `epoch` may start. False: the channel was closed.
  bool wait_for_epoch(std::int64_t epoch) {
    const MutexLock lock(mutex_);
    while (!closed_ && epoch_ < epoch) {
      changed_.wait(mutex_);
    }
    return !closed_;
  }
  void wait_for_close() {
    const MutexLock lock(mutex_);
    while (!closed_) {
      changed_.wait(mutex_);
    }
  }

 private:
  Mutex mutex_;
  Condition changed_;
  std::int64_t epoch_ ENERGON_GUARDED_BY(mutex_) = 0;
  bool closed_ ENERGON_GUARDED_BY(mutex_) = false;
};

/// The checkpoints of all streams of a worker, by the stream's number in the rank.
class StreamCheckpoints {
 public:
  StreamCheckpoints(WorkerEndpoint& channel, const LoaderOptions& options, int worker)
      : worker_(static_cast<std::size_t>(worker)),
        workers_(static_cast<std::size_t>(options.worker_config.workers_per_rank())) {
    const ChannelOptions sizes = channel_options(options, worker);
    for (std::uint64_t ring = 0; ring < sizes.checkpoint_rings; ++ring) {
      streams_.emplace_back(channel.checkpoints(ring), sizes.checkpoints.slots,
                            options.checkpoint_every_batches);
    }
  }

  WorkerCheckpoints& of(std::size_t stream) { return streams_.at((stream - worker_) / workers_); }
  const WorkerCheckpoints& of(std::size_t stream) const {
    return streams_.at((stream - worker_) / workers_);
  }

 private:
  const std::size_t worker_;
  const std::size_t workers_;
  std::deque<WorkerCheckpoints> streams_;  // neither copied nor moved
};

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

/// The main thread's half.
class Producer {
 public:
  Producer(WorkerStart& start, WorkerEndpoint& channel, StreamCheckpoints& checkpoints,
           EpochGate& gate)
      : worker_(start.worker_id),
        channel_(channel),
        checkpoints_(checkpoints),
        gate_(gate),
        wait_{.deadline = kNever, .peer_gone = start.watch->descriptors()},
        allocator_(channel.arena(), wait_),
        monitor_(statistics_in(channel.statistics())) {
    monitor_.set_on_many_reports([this] {
      if (!send_reports()) {
        throw Error(ErrorCode::kCancelled, "the loader was closed");
      }
    });
  }

  /// Makes and sends batches until the channel is closed.
  void run(const WorkerBeginning& beginning, const PipelineFactory& make_pipeline,
           const LoaderOptions& options) {
    const WorkerConfig& config = options.worker_config;
    DebugLog log(options.debug_log_path, config, worker_);
    std::vector<Stream> streams = begin_streams(beginning, make_pipeline, config);
    std::vector<Turn> places;
    for (const SavableDatasetCheckpoint& stream : beginning.streams) {
      places.push_back(stream.turn);
    }
    Turns turns(std::move(places), beginning.epoch);
    bool has_given = false;
    while (true) {
      const std::optional<std::size_t> turn = turns.next();
      if (!turn) {
        // A loop over data that gives nothing waits for the parent, which sees that.
        const bool may_go_on = options.epoch_policy == EpochPolicy::kLoop && has_given;
        if (!may_go_on && !gate_.wait_for_epoch(turns.epoch() + 1)) {
          return;
        }
        turns.start_epoch();
        has_given = false;
        continue;
      }
      Stream& stream = streams[*turn];
      channel_.status().set_item({static_cast<std::uint64_t>(stream.logical_shard),
                                  static_cast<std::uint64_t>(stream.pipeline->index())});
      std::optional<Sample> batch = make_batch(stream, turns.of(*turn).epoch);
      if (read_helper_) {
        count_helper(monitor_.block(), read_helper_->take_cpu_time());
      }
      channel_.status().advance();
      if (!send_reports()) {
        return;
      }
      if (batch) {
        if (log.enabled()) {
          log.write({{"t", "yield_batch"},
                     {"r", config.rank},
                     {"w", worker_},
                     {"idx", batches_},
                     {"keys", batch->keys}});
        }
        ++batches_;
        if (!send(std::move(*batch), stream, turns.of(*turn).count == 0)) {
          return;
        }
        turns.take(*turn);
        has_given = true;
      } else {
        if (!send_epoch_end(stream)) {
          return;
        }
        turns.end_epoch(*turn);
      }
    }
  }

  void send_failure(const Error& error) {
    try {
      send_reports();
    } catch (const Error&) {
      // No memory for them, or the loader is closed: the failure says more than the reports.
    }
    const std::string encoded = encode_error(error);
    const BatchHead head{.kind = SampleMessage::kFailure};
    if (const auto space = begin(sizeof(head) + encoded.size())) {
      std::memcpy(space->data(), &head, sizeof(head));
      std::memcpy(space->data() + sizeof(head), encoded.data(), encoded.size());
      channel_.samples().commit();
    }
  }

 private:
  struct Stream {
    std::size_t number;  // in the rank
    int logical_shard;
    std::unique_ptr<PositionedDataset> pipeline;
  };

  std::vector<Stream> begin_streams(const WorkerBeginning& beginning,
                                    const PipelineFactory& make_pipeline,
                                    const WorkerConfig& config) {
    const auto readers = std::make_shared<LeafReaders>(read_helper_);
    std::vector<Stream> streams;
    for (const SavableDatasetCheckpoint& begin : beginning.streams) {
      const int number = worker_ + static_cast<int>(streams.size()) * config.workers_per_rank();
      const PipelineContext context{.config = config,
                                    .stream = number,
                                    .memory = allocator_,
                                    .monitor = monitor_,
                                    .readers = readers};
      auto pipeline = std::make_unique<PositionedDataset>(make_pipeline(context));
      SavableDatasetCheckpoint first = begin;
      if (!first.state) {
        first.state = pipeline->dataset().save_state();
      }
      first.offset = 0;
      checkpoints_.of(static_cast<std::size_t>(number)).store(first);
      pipeline->restore(begin, begin.turn.epoch);
      streams.push_back(
          {static_cast<std::size_t>(number), context.logical_shard(), std::move(pipeline)});
    }
    return streams;
  }

  std::optional<Sample> make_batch(Stream& stream, std::int64_t epoch) {
    const BusyTime busy(monitor_.block(), making_, channel_.arena());
    return stream.pipeline->next(stream.logical_shard, epoch);
  }

  PackedSample pack(Sample batch) {
    const BusyTime busy(monitor_.block(), packing_, channel_.arena());
    return allocator_.pack(std::move(batch));
  }

  // Room for a message; nothing once the channel is closed.
  std::optional<std::span<std::byte>> begin(std::size_t size) {
    const ConsumerWait waiting(monitor_.block());
    const RingSpace space = channel_.samples().begin(size, wait_);
    return space.status == RingStatus::kItem ? std::optional(space.bytes) : std::nullopt;
  }

  // False: the channel was closed.
  bool send_reports() {
    const std::vector<FailureReport> reports = monitor_.take_reports();
    for (const std::string& message : encode_reports(reports)) {
      ArenaSlot slot = channel_.arena().acquire(message.size(), wait_);
      std::memcpy(slot.bytes().data(), message.data(), message.size());
      const BatchHead head{
          .kind = SampleMessage::kReports, .slot_count = 1, .encoded_bytes = message.size()};
      const auto space = begin(sizeof(head) + sizeof(SlotReference));
      if (!space) {
        return false;
      }
      const SlotReference reference = slot.publish();
      std::memcpy(space->data(), &head, sizeof(head));
      std::memcpy(space->data() + sizeof(head), &reference, sizeof(reference));
      channel_.samples().commit();
    }
    return true;
  }

  // What was left out since the last checkpoint must not be passed over on restore, because it may
  // not be left out again (a file that was missing is back): only batches without drops are.
  bool has_new_drops() { return std::exchange(drops_, monitor_.drops()) != monitor_.drops(); }

  bool send(Sample batch, const Stream& stream, bool is_first_of_epoch) {
    PackedSample packed = pack(std::move(batch));
    std::uint64_t bytes = 0;
    for (const ArenaSlot& slot : packed.slots) {
      bytes += slot.bytes().size();
    }
    const BatchHead head{.kind = SampleMessage::kBatch,
                         .slot_count = static_cast<std::uint32_t>(packed.slots.size()),
                         .stream = static_cast<std::uint32_t>(stream.number),
                         .index = static_cast<std::uint64_t>(stream.pipeline->index() - 1),
                         .encoded_offset = packed.encoded_offset,
                         .encoded_bytes = packed.encoded_bytes};
    const auto space = begin(sizeof(head) + packed.slots.size() * sizeof(SlotReference));
    if (!space) {
      return false;
    }
    // Stored before the batch can be seen, so that a save right after its delivery finds it; and
    // after there is room, so that at most prefetch_factor + 1 checkpoints are needed.
    WorkerCheckpoints& checkpoints = checkpoints_.of(stream.number);
    const bool is_due = checkpoints.due(stream.pipeline->index(), bytes, is_first_of_epoch);
    if (has_new_drops() || is_due) {
      checkpoints.store(stream.pipeline->checkpoint());
    }
    std::memcpy(space->data(), &head, sizeof(head));
    std::size_t offset = sizeof(head);
    for (ArenaSlot& slot : packed.slots) {
      const SlotReference reference = slot.publish();
      std::memcpy(space->data() + offset, &reference, sizeof(reference));
      offset += sizeof(reference);
    }
    count_batch(monitor_.block());
    channel_.samples().commit();
    return true;
  }

  bool send_epoch_end(const Stream& stream) {
    const BatchHead head{.kind = SampleMessage::kEpochEnd,
                         .stream = static_cast<std::uint32_t>(stream.number),
                         .index = static_cast<std::uint64_t>(stream.pipeline->index())};
    const auto space = begin(sizeof(head));
    if (!space) {
      return false;
    }
    if (has_new_drops()) {
      checkpoints_.of(stream.number).store(stream.pipeline->checkpoint());
    }
    std::memcpy(space->data(), &head, sizeof(head));
    channel_.samples().commit();
    return true;
  }

  const int worker_;
  WorkerEndpoint& channel_;
  StreamCheckpoints& checkpoints_;
  EpochGate& gate_;
  const Wait wait_;
  SlotAllocator allocator_;
  const std::shared_ptr<ReadHelper> read_helper_ =
      ReadHelper::can_help() ? std::make_shared<ReadHelper>() : nullptr;
  LoaderMonitor monitor_;
  CpuShare making_;
  CpuShare packing_;
  std::uint64_t drops_ = 0;   // before the last batch
  std::int64_t batches_ = 0;  // made in this run
};

/// Makes and sends batches until the channel is closed, or sends why it cannot.
void produce(WorkerStart& start, WorkerEndpoint& channel, StreamCheckpoints& checkpoints,
             EpochGate& gate, const PipelineFactory& make_pipeline, const LoaderOptions& options) {
  Producer producer(start, channel, checkpoints, gate);
  std::optional<Error> failure;
  try {
    producer.run(decode_beginning(as_text(start.payload)), make_pipeline, options);
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

ChannelOptions channel_options(const LoaderOptions& options, int worker) {
  const WorkerConfig& config = options.worker_config;
  ChannelOptions channel;
  channel.prefetch_units = static_cast<std::uint64_t>(options.prefetch_factor);
  channel.checkpoint_rings = static_cast<std::uint64_t>(
      share_of(config.stream_count(), worker, config.workers_per_rank()));
  channel.checkpoints.slots = static_cast<std::uint32_t>(
      std::max(options.n_checkpoints.value_or(options.prefetch_factor + 1), 2));
  channel.checkpoints.slot_bytes = options.checkpoint_slot_bytes;
  channel.arena.limit_bytes = options.arena_limit_bytes;
  channel.arena.keep_free_bytes = options.arena_limit_bytes / 2;
  // Before the parent gives up waiting, so that the error is about the memory and not about the
  // time.
  channel.arena.starvation_limit = std::min(channel.arena.starvation_limit, options.timeout / 2);
  return channel;
}

std::string encode_beginning(const WorkerBeginning& beginning) {
  ByteWriter writer;
  writer.i64(beginning.epoch);
  writer.u32(static_cast<std::uint32_t>(beginning.streams.size()));
  for (const SavableDatasetCheckpoint& stream : beginning.streams) {
    writer.i64(stream.turn.epoch);
    writer.i64(stream.turn.count);
    encode_checkpoint(writer, stream);
  }
  return writer.take();
}

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
