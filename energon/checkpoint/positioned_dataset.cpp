#include "energon/checkpoint/positioned_dataset.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kStepTime{10};

}  // namespace

// In steps of about kStepTime, so that a pipeline which makes what it skips shows progress.
std::int64_t PositionedDataset::skip(std::int64_t count, std::optional<std::int64_t> batch_size,
                                     PipelineMonitor& monitor) {
  std::int64_t skipped = 0;
  for (std::int64_t step = 1; skipped < count;) {
    step = std::min(step, count - skipped);
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
      // The offset reaches over the end of an epoch. Several epochs that yield nothing mean that
      // the data is shorter.
      empty_epochs = skipped == 0 ? empty_epochs + 1 : 0;
      if (epoch_ >= epoch || empty_epochs > 2) {
        throw Error(
            ErrorCode::kMismatch,
            fmt::format("the state says that {} batches more were delivered than the data has",
                        left));
      }
      next_epoch();
    }
  }
  if (!batch_size && dataset_->size() == 0) {
    epoch_ = epoch;  // without a look at each empty epoch
  }
  while (epoch_ < epoch) {
    // The epoch ended after these batches, or the loader would not be in a later one.
    if (skip(1, batch_size, monitor) != 0) {
      throw Error(
          ErrorCode::kMismatch,
          fmt::format("the state says that epoch {} ended at batch {}, but the data goes on",
                      epoch_, index_));
    }
    next_epoch();
  }
}

std::optional<Sample> PositionedDataset::next(int logical_shard, std::int64_t epoch) {
  while (epoch_ < epoch) {
    next_epoch();
  }
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
                fmt::format("logical shard {} cannot be restored: {}", context.logical_shard(),
                            error.message()),
                error.context());
  }
  return pipeline;
}

}  // namespace energon
