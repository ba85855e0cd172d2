#include "energon/checkpoint/positioned_dataset.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/stage/call_context.h"
#include "io/error.h"

namespace energon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kStepTime{10};

std::int64_t divide_up(std::int64_t dividend, std::int64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

// Skips the batches (of `old_size` samples each) that logical shard `local_index` delivered after
// its state, using `pipeline`, and converts its counts to batches of `new_size`. The last batch of
// an epoch may have been smaller; samples dropped at the end of the epoch stay dropped.
void rebatch(SavableDatasetCheckpoint& checkpoint, std::int64_t old_size, std::int64_t new_size,
             std::unique_ptr<Dataset> pipeline) {
  PositionedDataset position(std::move(pipeline));
  position.restore(checkpoint, checkpoint.turn.epoch, old_size);
  checkpoint = {.state = position.dataset().save_state(),
                .index = divide_up(position.index() * old_size, new_size),
                .epoch = position.epoch(),
                .offset = 0,
                .logical_shard = checkpoint.logical_shard,
                .turn = checkpoint.turn,
                .certificate = checkpoint.certificate};
}

// Throws Error if the state of logical shard `local_index` does not fit, or if `pipeline` has fewer
// batches than the logical shard counts. Restoring repeats these steps later. Applies the state
// rather than only comparing it, because user objects may refuse it only then. Does not run a
// pipeline of unknown size, which would have to make the batches.
void check_checkpoint(const SavableDatasetCheckpoint& checkpoint,
                      std::unique_ptr<Dataset> pipeline) {
  const bool is_ahead = checkpoint.offset > 0 || checkpoint.turn.epoch > checkpoint.epoch;
  if (is_ahead && pipeline->size()) {
    PositionedDataset(std::move(pipeline)).restore(checkpoint, checkpoint.turn.epoch);
  } else if (checkpoint.state) {
    pipeline->restore_state(*checkpoint.state);
  }
}

[[noreturn]] void refuse(std::vector<std::string> differences) {
  const bool is_excluded_different =
      std::ranges::any_of(differences, [](const std::string& difference) {
        return difference.find("].excluded: ") != std::string::npos;
      });
  if (is_excluded_different) {
    differences.emplace_back(
        "(excluded: the list exclude of a split file, or the shards that cannot be opened, are not "
        "those of the job; exclude_files may differ)");
  }
  throw Error(ErrorCode::kMismatch,
              fmt::format("the state was saved by another loader; nothing was restored:\n  {}",
                          fmt::join(differences, "\n  ")));
}

}  // namespace

// In steps of about kStepTime, so that a pipeline that computes what it skips shows progress. If
// functions make what is skipped, one by one: they may ask for the number of the item.
std::int64_t PositionedDataset::skip(std::int64_t count, std::optional<std::int64_t> batch_size,
                                     PipelineMonitor& monitor) {
  const Replay replay;
  const bool makes_items = dataset_->skip_makes_items();
  std::int64_t skipped = 0;
  for (std::int64_t step = 1; skipped < count;) {
    step = makes_items ? 1 : std::min(step, count - skipped);
    const ItemNumber number(index_ + skipped);
    const Clock::time_point begin = Clock::now();
    const std::int64_t more =
        batch_size ? dataset_->skip_batches(step, *batch_size) : dataset_->skip(step);
    skipped += more;
    monitor.note_replayed();
    if (more < step) {
      break;
    }
    step = Clock::now() - begin < kStepTime ? 2 * step : std::max<std::int64_t>(step / 2, 1);
  }
  return skipped;
}

void PositionedDataset::restore(const SavableDatasetCheckpoint& checkpoint, std::int64_t epoch,
                                std::optional<std::int64_t> batch_size, PipelineMonitor& monitor) {
  if (checkpoint.state) {
    dataset_->restore_state(*checkpoint.state);
  }
  index_ = checkpoint.index;
  epoch_ = checkpoint.epoch;
  std::int64_t left = checkpoint.offset;
  int empty_epochs = 0;
  while (left > 0) {
    const std::int64_t skipped = skip(left, batch_size, monitor);
    left -= skipped;
    index_ += skipped;
    if (left > 0) {
      // The offset extends beyond the end of an epoch. Several empty epochs in a row mean that the
      // data is shorter.
      empty_epochs = skipped == 0 ? empty_epochs + 1 : 0;
      if (epoch_ >= epoch || empty_epochs > 2) {
        throw Error(
            ErrorCode::kMismatch,
            fmt::format("the state counts {} more delivered batches than the data has", left));
      }
      next_epoch();
    }
  }
  if (!batch_size && dataset_->size() == 0) {
    epoch_ = epoch;  // skips empty epochs
  }
  while (epoch_ < epoch) {
    // The epoch must end after these batches, since the loader is in a later one.
    if (skip(1, batch_size, monitor) != 0) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("by the state, epoch {} ended at batch {}, but the data continues",
                              epoch_, index_));
    }
    next_epoch();
  }
}

std::optional<Sample> PositionedDataset::next(int logical_shard, std::int64_t epoch) {
  while (epoch_ < epoch) {
    next_epoch();
  }
  const ItemNumber number(index_);
  std::optional<Sample> sample = dataset_->next();
  if (sample) {
    sample->restore_key =
        RestoreKey::around(Stage::kLogicalShard, {logical_shard, index_}, sample->restore_key);
    ++index_;
  }
  return sample;
}

void PositionedDataset::next_epoch() {
  dataset_->next_epoch();
  ++epoch_;
}

SavableDatasetCheckpoint PositionedDataset::checkpoint() const {
  return {dataset_->save_state(), index_, epoch_, 0};
}

std::unique_ptr<PositionedDataset> restored_pipeline(const PipelineFactory& make_pipeline,
                                                     const PipelineContext& context,
                                                     const SavableDatasetCheckpoint& checkpoint,
                                                     std::int64_t epoch) {
  auto pipeline = std::make_unique<PositionedDataset>(make_pipeline(context));
  try {
    pipeline->restore(checkpoint, epoch, std::nullopt, context.monitor);
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("cannot restore logical shard {}: {}", context.logical_shard(),
                            error.message()),
                error.context());
  }
  return pipeline;
}

SavableDataLoaderState fit_state(const SavableDataLoaderState& state, const Config& expected,
                                 const PipelineFactory& make_pipeline,
                                 const WorkerConfig& worker_config) {
  std::vector<std::string> differences;
  const std::optional<std::int64_t> saved_size = state.micro_batch_size;
  const std::optional<std::int64_t> size = micro_batch_size(expected);
  check_micro_batch(saved_size, size, expected, differences);
  Config saved = state.config;
  if (size) {
    set_micro_batch_size(saved, *size);  // compared by check_micro_batch()
  }
  compare_configs(saved, expected, "", differences);
  std::vector<int> saved_shards;
  saved_shards.reserve(state.checkpoints.size());
  for (const SavableDatasetCheckpoint& checkpoint : state.checkpoints) {
    saved_shards.push_back(checkpoint.logical_shard);
  }
  std::vector<int> shards;
  shards.reserve(static_cast<std::size_t>(worker_config.logical_shards_per_rank()));
  for (int local_index = 0; local_index < worker_config.logical_shards_per_rank(); ++local_index) {
    shards.push_back(worker_config.logical_shard(local_index));
  }
  if (saved_shards != shards) {
    differences.push_back(fmt::format("checkpoints: {} (of logical shards {}), expected {} ({})",
                                      saved_shards.size(), fmt::join(saved_shards, ", "),
                                      shards.size(), fmt::join(shards, ", ")));
  }
  if (!differences.empty()) {
    refuse(differences);
  }
  SavableDataLoaderState fitted = state;
  fitted.config = expected;
  fitted.micro_batch_size = size;
  if (saved_size && *saved_size != *size) {
    fitted.batch_index = divide_up(fitted.batch_index * *saved_size, *size);
    if (fitted.step_in_epoch) {
      fitted.step_in_epoch = divide_up(*fitted.step_in_epoch * *saved_size, *size);
    }
  }
  HeapBufferPool memory;
  const auto readers = make_leaf_readers();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    SavableDatasetCheckpoint& checkpoint = fitted.checkpoints[i];
    const int number = static_cast<int>(i);
    try {
      auto pipeline = make_pipeline(
          {.config = worker_config, .local_index = number, .memory = memory, .readers = readers});
      if (saved_size && *saved_size != *size) {
        rebatch(checkpoint, *saved_size, *size, std::move(pipeline));
      } else {
        check_checkpoint(checkpoint, std::move(pipeline));
      }
    } catch (Error& error) {
      error.with({.worker = worker_config.worker_of(number)});
      throw;
    }
  }
  return fitted;
}

}  // namespace energon
