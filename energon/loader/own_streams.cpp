#include "energon/loader/own_streams.h"

#include <chrono>
#include <utility>

#include "io/error.h"

namespace energon {

OwnStreams::OwnStreams(const PipelineFactory& make_pipeline, const LoaderOptions& options,
                       FailureLog& failures, CheckpointHistory& history, WaitCheck& check)
    : make_pipeline_(make_pipeline),
      options_(options),
      failures_(failures),
      history_(history),
      check_(check),
      counted_(std::make_unique<StatisticsBlock>()) {
  monitor_.set_check(check);
}

void OwnStreams::start(std::span<const SavableDatasetCheckpoint> starts) {
  starts_ = starts;
  readers_ = make_leaf_readers();
  streams_.resize(starts.size());
  try {
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (starts[i].is_start()) {
        make(i, starts[i].turn.epoch);  // what the factory throws, it throws at once
      }
    }
  } catch (...) {
    streams_.clear();
    throw;
  }
  drops_ = monitor_.drops();
}

void OwnStreams::make(std::size_t number, std::int64_t epoch) {
  Stream& stream = streams_[number];
  stream.pipeline = restored_pipeline(make_pipeline_,
                                      {.config = options_.worker_config,
                                       .stream = static_cast<int>(number),
                                       .memory = memory_,
                                       .made = made_,
                                       .monitor = monitor_,
                                       .readers = readers_},
                                      starts_[number], epoch);
  stream.kept.emplace(history_, number, options_.checkpoint_every_batches);
  if (starts_[number].offset > 0) {
    stream.kept->keep(*stream.pipeline);  // as BatchProducer::restore()
  }
}

std::optional<Sample> OwnStreams::read(std::size_t number, const Turn& turn) {
  Stream& stream = streams_[number];
  std::optional<Sample> batch;
  check_.look();
  try {
    const BusyTime busy(*counted_, cpu_);
    if (!stream.pipeline) {
      make(number, turn.epoch);
    }
    batch = stream.pipeline->next(starts_[number].logical_shard, turn.epoch);
    made_->end_batch();
  } catch (...) {
    if (check_.has_ended_wait()) {
      monitor_.take_reports();  // they come again, when the batch is made again
      throw;
    }
    try {
      take_reports();
    } catch (const Error&) {
      // The quarantine file cannot be written; the failure of the pipeline says more.
    }
    throw;
  }
  take_reports();
  keep_if_due(stream, batch ? &*batch : nullptr, turn.count == 0);
  if (batch) {
    count_batch(*counted_);
  }
  return batch;
}

// By the rules of a worker. `batch`: that `stream` just gave; null: its epoch ended.
void OwnStreams::keep_if_due(Stream& stream, const Sample* batch, bool is_first_of_epoch) {
  const bool replay_makes_it = stream.pipeline->dataset().skip_makes_items();
  const bool is_due =
      batch != nullptr &&
      stream.kept->due(
          {.index = stream.pipeline->index(),
           .bytes = payload_bytes(*batch),
           .is_first_of_epoch = is_first_of_epoch,
           .replay_time = replay_makes_it ? cpu_.last_call() : std::chrono::nanoseconds(0)});
  // What was left out may not be left out again: batches are only passed over where nothing was.
  const bool has_new_drops = std::exchange(drops_, monitor_.drops()) != monitor_.drops();
  if (is_due || has_new_drops) {
    stream.kept->keep(*stream.pipeline);
  }
}

void OwnStreams::take_reports() {
  for (const FailureReport& report : monitor_.take_reports()) {
    failures_.add(report);
  }
}

std::vector<SavableDatasetCheckpoint> OwnStreams::positions() const {
  std::vector<SavableDatasetCheckpoint> positions;
  positions.reserve(streams_.size());
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Stream& stream = streams_[i];
    positions.push_back(stream.pipeline ? stream.pipeline->checkpoint() : starts_[i]);
  }
  return positions;
}

}  // namespace energon
