#include "energon/worker/batch_producer.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "energon/checkpoint/turns.h"
#include "energon/read/leaf_readers.h"
#include "energon/stage/debug_log.h"
#include "energon/worker/statistics_block.h"

namespace energon {

BatchProducer::BatchProducer(WorkerStart& start, WorkerEndpoint& channel,
                             StreamCheckpoints& checkpoints, EpochGate& gate)
    : worker_(start.worker_id),
      channel_(channel),
      checkpoints_(checkpoints),
      gate_(gate),
      wait_{.deadline = kNever, .peer_gone = start.watch->descriptors()},
      allocator_(channel.arena(), wait_),
      read_helper_(ReadHelper::can_help() ? std::make_shared<ReadHelper>() : nullptr),
      monitor_(statistics_in(channel.statistics())),
      sender_(channel, checkpoints, allocator_, monitor_, wait_) {
  monitor_.set_on_many_reports([this] {
    if (!sender_.send_reports()) {
      throw Error(ErrorCode::kCancelled, "the loader was closed");
    }
  });
}

void BatchProducer::run(const WorkerBeginning& beginning, const PipelineFactory& make_pipeline,
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
  std::int64_t batches = 0;  // made in this run
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
    std::optional<Sample> batch = make_batch(stream, turns.of(*turn).epoch);
    if (!sender_.send_reports()) {
      return;
    }
    if (!batch) {
      if (!sender_.send_epoch_end(stream.number, *stream.pipeline)) {
        return;
      }
      turns.end_epoch(*turn);
      continue;
    }
    if (log.enabled()) {
      log.write({{"t", "yield_batch"},
                 {"r", config.rank},
                 {"w", worker_},
                 {"idx", batches},
                 {"keys", batch->keys}});
    }
    ++batches;
    const bool is_first_of_epoch = turns.of(*turn).count == 0;
    if (!sender_.send_batch(std::move(*batch), stream.number, *stream.pipeline,
                            is_first_of_epoch)) {
      return;
    }
    turns.take(*turn);
    has_given = true;
  }
}

std::vector<BatchProducer::Stream> BatchProducer::begin_streams(
    const WorkerBeginning& beginning, const PipelineFactory& make_pipeline,
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

std::optional<Sample> BatchProducer::make_batch(Stream& stream, std::int64_t epoch) {
  channel_.status().set_item({static_cast<std::uint64_t>(stream.logical_shard),
                              static_cast<std::uint64_t>(stream.pipeline->index())});
  std::optional<Sample> batch;
  {
    const BusyTime busy(monitor_.block(), making_, channel_.arena());
    batch = stream.pipeline->next(stream.logical_shard, epoch);
  }
  if (read_helper_) {
    count_helper(monitor_.block(), read_helper_->take_cpu_time());
  }
  channel_.status().advance();
  return batch;
}

}  // namespace energon
