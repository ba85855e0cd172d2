#include "energon/worker/batch_producer.h"

#include <chrono>
#include <utility>

#include <nlohmann/json.hpp>

#include "energon/read/leaf_readers.h"
#include "energon/worker/statistics_block.h"
#include "io/file.h"

namespace energon {

BatchProducer::BatchProducer(WorkerStart& start, WorkerEndpoint& channel,
                             StreamCheckpoints& checkpoints, EpochGate& gate,
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
  // Threads of file caches read until the process ends, so the counter stays mapped until then.
  static std::shared_ptr<SharedMemory> kept;
  kept = channel.memory();
  count_reads_in(channel.status().bytes_read);
  monitor_.set_on_many_reports([this] {
    if (!sender_.send_reports()) {
      throw Error(ErrorCode::kCancelled, "the loader was closed");
    }
  });
}

void BatchProducer::run(const WorkerBeginning& beginning) {
  DebugLog log(options_.debug_log_path, options_.worker_config, worker_);
  std::vector<Stream> streams = begin_streams(beginning);
  std::vector<Turn> places;
  for (const SavableDatasetCheckpoint& stream : beginning.streams) {
    places.push_back(stream.turn);
  }
  Turns turns(std::move(places), beginning.epoch);
  std::int64_t batches_before = 0;  // at the start of the epoch
  while (true) {
    gate_.check();
    if (const std::optional<std::size_t> turn = turns.next()) {
      if (!take_turn(streams[*turn], turns, *turn, log)) {
        return;
      }
      continue;
    }
    // A loop over data that gives nothing waits for the parent, which sees that.
    const bool may_go_on = options_.epoch_policy == EpochPolicy::kLoop && batches_ > batches_before;
    if (!may_go_on && !gate_.wait_for_epoch(turns.epoch() + 1)) {
      return;
    }
    channel_.status().advance();  // LiveWorker::died_before_epoch()
    turns.start_epoch();
    batches_before = batches_;
  }
}

// Makes and sends the next batch of `stream`, or says that its epoch ended. False: the channel was
// closed.
bool BatchProducer::take_turn(Stream& stream, Turns& turns, std::size_t number, DebugLog& log) {
  const Turn turn = turns.of(number);
  std::optional<PackedSample> batch = make_batch(stream, turn.epoch, log);
  if (!sender_.send_reports()) {
    return false;
  }
  if (!batch) {
    turns.end_epoch(number);
    return sender_.send_epoch_end(stream.number, *stream.pipeline);
  }
  turns.take(number);
  ++batches_;
  const bool replay_makes_it = stream.pipeline->dataset().skip_makes_items();
  return sender_.send_batch(
      std::move(*batch), stream.number, *stream.pipeline,
      {.is_first_of_epoch = turn.count == 0,
       .replay_time = replay_makes_it ? making_.last_call() : std::chrono::nanoseconds(0)});
}

PipelineContext BatchProducer::context_of(std::size_t stream) {
  return {.config = options_.worker_config,
          .stream = static_cast<int>(stream),
          .memory = allocator_,
          .made = made_,
          .monitor = monitor_,
          .readers = readers_};
}

// A stream that begins at a saved state gets its pipeline at its first turn.
std::vector<BatchProducer::Stream> BatchProducer::begin_streams(const WorkerBeginning& beginning) {
  const auto workers = static_cast<std::size_t>(options_.worker_config.workers_per_rank());
  std::vector<Stream> streams;
  streams.reserve(beginning.streams.size());
  for (const SavableDatasetCheckpoint& begin : beginning.streams) {
    const std::size_t number = static_cast<std::size_t>(worker_) + streams.size() * workers;
    const PipelineContext context = context_of(number);
    Stream& stream = streams.emplace_back(Stream{number, context.logical_shard(), begin, nullptr});
    SavableDatasetCheckpoint first = begin;
    first.offset = 0;
    if (!begin.state) {
      stream.pipeline = std::make_unique<PositionedDataset>(make_pipeline_(context));
      first.state = stream.pipeline->dataset().save_state();
    }
    checkpoints_.of(number).store(first);
    if (stream.pipeline) {
      restore(stream);
    }
    channel_.status().advance();
  }
  return streams;
}

// Stores a checkpoint after a replay. Otherwise each of several short runs would replay what the
// runs before it replayed, and more.
void BatchProducer::restore(Stream& stream) {
  if (stream.pipeline) {
    stream.pipeline->restore(stream.begin, stream.begin.turn.epoch, std::nullopt, monitor_);
  } else {
    stream.pipeline = restored_pipeline(make_pipeline_, context_of(stream.number), stream.begin,
                                        stream.begin.turn.epoch);
  }
  if (stream.begin.offset > 0) {
    // The ring holds only the checkpoint that the stream began at, so there is room.
    checkpoints_.of(stream.number).store(*stream.pipeline);
  }
  stream.begin = {};
}

std::optional<PackedSample> BatchProducer::make_batch(Stream& stream, std::int64_t epoch,
                                                      DebugLog& log) {
  channel_.status().set_item({static_cast<std::uint64_t>(stream.logical_shard),
                              static_cast<std::uint64_t>(stream.index())});
  std::optional<PackedSample> packed;
  {
    const BusyTime busy(monitor_.block(), making_, channel_.arena());
    if (!stream.pipeline) {
      restore(stream);
    }
    if (std::optional<Sample> batch = stream.pipeline->next(stream.logical_shard, epoch)) {
      made_->end_batch();
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

}  // namespace energon
