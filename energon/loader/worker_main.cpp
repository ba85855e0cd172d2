#include "energon/loader/worker_main.h"

#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/loader/debug_log.h"
#include "energon/loader/positioned_dataset.h"
#include "energon/loader/protocol.h"
#include "energon/loader/slot_allocator.h"
#include "energon/loader/transport.h"
#include "energon/loader/worker_checkpoints.h"
#include "io/error.h"

namespace energon {
namespace {

WorkerBeginning decode_beginning(std::string_view bytes) {
  ByteReader reader(bytes, "the beginning of a worker");
  WorkerBeginning beginning;
  beginning.epoch = reader.i64();
  beginning.checkpoint = decode_checkpoint(reader);
  reader.finish();
  return beginning;
}

/// What the command thread tells the main thread.
class Orders {
 public:
  void start_epoch(std::int64_t epoch) {
    const std::lock_guard lock(mutex_);
    epoch_ = epoch;
    changed_.notify_all();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  /// Waits until epoch `epoch` may start. False: the channel was closed.
  bool wait_for_epoch(std::int64_t epoch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || epoch_ >= epoch; });
    return !closed_;
  }
  void wait_for_close() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t epoch_ = 0;
  bool closed_ = false;
};

/// The command thread: serves commands until the channel is closed or the parent is gone.
void serve_commands(WorkerEndpoint& channel, const WorkerCheckpoints& checkpoints,
                    const ParentWatch& watch, Orders& orders) {
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
        orders.start_epoch(static_cast<std::int64_t>(command.argument));
        break;
      case CommandKind::kGetCheckpoint: {
        const auto index = checkpoints.newest_not_after(command.argument);
        const CheckpointAnswer answer{
            .delivered = command.argument, .index = index.value_or(0), .found = index ? 1U : 0U};
        const RingSpace space = channel.results().begin(sizeof(answer), wait);
        if (space.status == RingStatus::kItem) {
          std::memcpy(space.bytes.data(), &answer, sizeof(answer));
          channel.results().commit();
        }
        break;
      }
    }
  }
  orders.close();
}

/// The main thread's half.
class Producer {
 public:
  Producer(WorkerStart& start, WorkerEndpoint& channel, WorkerCheckpoints& checkpoints,
           Orders& orders)
      : worker_(start.worker_id),
        channel_(channel),
        checkpoints_(checkpoints),
        orders_(orders),
        wait_{.deadline = kNever, .peer_gone = start.watch->descriptors()},
        allocator_(channel.arena(), wait_) {}

  /// Makes and sends batches until the channel is closed.
  void run(const WorkerBeginning& beginning, const PipelineFactory& make_pipeline,
           const LoaderOptions& options) {
    const WorkerConfig& config = options.worker_config;
    DebugLog log(options.debug_log_path, config, worker_);
    const PipelineContext context{.config = config, .worker = worker_, .memory = allocator_};
    PositionedDataset stream(make_pipeline(context));
    SavableDatasetCheckpoint first = beginning.checkpoint;
    if (!first.state) {
      first.state = stream.dataset().save_state();
    }
    first.offset = 0;
    checkpoints_.store(first);
    stream.restore(beginning.checkpoint, beginning.epoch);
    while (true) {
      channel_.status().set_item({static_cast<std::uint64_t>(context.logical_shard()),
                                  static_cast<std::uint64_t>(stream.index())});
      std::optional<Sample> batch = stream.next(context.logical_shard());
      channel_.status().advance();
      if (batch) {
        if (log.enabled()) {
          log.write({{"t", "yield_batch"},
                     {"r", config.rank},
                     {"w", worker_},
                     {"idx", stream.index() - 1},
                     {"keys", batch->keys}});
        }
        if (!send(std::move(*batch), stream)) {
          return;
        }
      } else {
        if (!send_head({.kind = SampleMessage::kEpochEnd,
                        .index = static_cast<std::uint64_t>(stream.index())},
                       {}) ||
            !orders_.wait_for_epoch(stream.epoch() + 1)) {
          return;
        }
        stream.next_epoch();
      }
    }
  }

  void send_failure(const Error& error) {
    send_head({.kind = SampleMessage::kFailure}, as_bytes(encode_error(error)));
  }

 private:
  bool send(Sample batch, const PositionedDataset& stream) {
    PackedSample packed = allocator_.pack(std::move(batch));
    std::uint64_t bytes = 0;
    for (const ArenaSlot& slot : packed.slots) {
      bytes += slot.bytes().size();
    }
    const BatchHead head{.kind = SampleMessage::kBatch,
                         .slot_count = static_cast<std::uint32_t>(packed.slots.size()),
                         .index = static_cast<std::uint64_t>(stream.index() - 1),
                         .encoded_offset = packed.encoded_offset,
                         .encoded_bytes = packed.encoded_bytes};
    const RingSpace space =
        channel_.samples().begin(sizeof(head) + packed.slots.size() * sizeof(SlotReference), wait_);
    if (space.status != RingStatus::kItem) {
      return false;
    }
    // Stored before the batch can be seen, so that a save right after its delivery finds it; and
    // after there is room, so that at most prefetch_factor + 1 checkpoints are needed.
    if (checkpoints_.due(stream.index(), bytes)) {
      checkpoints_.store(stream.checkpoint());
    }
    std::memcpy(space.bytes.data(), &head, sizeof(head));
    std::size_t offset = sizeof(head);
    for (ArenaSlot& slot : packed.slots) {
      const SlotReference reference = slot.publish();
      std::memcpy(space.bytes.data() + offset, &reference, sizeof(reference));
      offset += sizeof(reference);
    }
    channel_.samples().commit();
    return true;
  }

  bool send_head(const BatchHead& head, ByteView rest) {
    const RingSpace space = channel_.samples().begin(sizeof(head) + rest.size(), wait_);
    if (space.status != RingStatus::kItem) {
      return false;
    }
    std::memcpy(space.bytes.data(), &head, sizeof(head));
    if (!rest.empty()) {
      std::memcpy(space.bytes.data() + sizeof(head), rest.data(), rest.size());
    }
    channel_.samples().commit();
    return true;
  }

  const int worker_;
  WorkerEndpoint& channel_;
  WorkerCheckpoints& checkpoints_;
  Orders& orders_;
  const Wait wait_;
  SlotAllocator allocator_;
};

}  // namespace

ChannelOptions channel_options(const LoaderOptions& options) {
  ChannelOptions channel;
  channel.prefetch_units = static_cast<std::uint64_t>(options.prefetch_factor);
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
  encode_checkpoint(writer, beginning.checkpoint);
  return writer.take();
}

int run_worker(WorkerStart& start, const PipelineFactory& make_pipeline,
               const LoaderOptions& options) {
  WorkerEndpoint channel(std::move(start.descriptors));
  WorkerCheckpoints checkpoints(channel.checkpoints(), channel_options(options).checkpoints.slots,
                                options.checkpoint_every_batches);
  Orders orders;
  std::jthread command_thread([&] { serve_commands(channel, checkpoints, *start.watch, orders); });
  Producer producer(start, channel, checkpoints, orders);
  std::optional<Error> failure;
  try {
    producer.run(decode_beginning(as_text(start.payload)), make_pipeline, options);
  } catch (const Error& error) {
    failure = error;
  } catch (const std::exception& error) {
    failure = Error(ErrorCode::kInternal, fmt::format("the pipeline failed: {}", error.what()));
  } catch (...) {
    failure = Error(ErrorCode::kInternal, "the pipeline threw something that is no std::exception");
  }
  if (failure && failure->code() != ErrorCode::kCancelled) {
    producer.send_failure(*failure);
    orders.wait_for_close();
  }
  return 0;
}

}  // namespace energon
