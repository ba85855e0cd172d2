#include "energon/checkpoint/state_check.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/positioned_dataset.h"
#include "energon/checkpoint/start_rules.h"
#include "energon/checkpoint/state_config.h"
#include "energon/sample/buffer_allocator.h"
#include "io/error.h"

namespace energon {
namespace {

std::int64_t divide_up(std::int64_t dividend, std::int64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

// Moves `stream` past the batches that were delivered after its state, of `old_size` samples each,
// by `pipeline`, and counts it in batches of `new_size`. The last batch of an epoch may have been
// smaller; samples left out at its end stay left out.
void rebatch(SavableDatasetCheckpoint& stream, std::int64_t old_size, std::int64_t new_size,
             std::unique_ptr<Dataset> pipeline) {
  PositionedDataset position(std::move(pipeline));
  position.restore(stream, stream.turn.epoch, old_size);
  stream = {.state = position.dataset().save_state(),
            .index = divide_up(position.index() * old_size, new_size),
            .epoch = position.epoch(),
            .offset = 0,
            .logical_shard = stream.logical_shard,
            .turn = stream.turn,
            .certificate = stream.certificate};
}

// Throws Error if the state of `stream` does not fit, or if `pipeline` ends before the batches that
// `stream` counts. Restoring repeats these steps later. The state is applied, not only compared: an
// object of the user's may refuse it only then. A pipeline of unknown size is not run: it would
// have to make the batches.
void check_stream(const SavableDatasetCheckpoint& stream, std::unique_ptr<Dataset> pipeline) {
  const bool is_ahead = stream.offset > 0 || stream.turn.epoch > stream.epoch;
  if (is_ahead && pipeline->size()) {
    PositionedDataset(std::move(pipeline)).restore(stream, stream.turn.epoch);
  } else if (stream.state) {
    pipeline->restore_state(*stream.state);
  }
}

[[noreturn]] void refuse(const std::vector<std::string>& differences) {
  throw Error(ErrorCode::kMismatch,
              fmt::format("the state was saved by another loader; nothing was restored:\n  {}",
                          fmt::join(differences, "\n  ")));
}

}  // namespace

SavableDataLoaderState fit_state(const SavableDataLoaderState& state, const Config& expected,
                                 const PipelineFactory& make_pipeline,
                                 const WorkerConfig& worker_config) {
  std::vector<std::string> differences;
  const std::optional<std::int64_t> saved_size = state.micro_batch_size;
  const std::optional<std::int64_t> size = micro_batch_size(expected);
  check_micro_batch(saved_size, size, expected, differences);
  Config saved = state.config;
  if (size) {
    set_micro_batch_size(saved, *size);  // judged by check_micro_batch()
  }
  compare_configs(saved, expected, "", differences);
  std::vector<int> saved_shards;
  saved_shards.reserve(state.streams.size());
  for (const SavableDatasetCheckpoint& stream : state.streams) {
    saved_shards.push_back(stream.logical_shard);
  }
  std::vector<int> shards;
  shards.reserve(static_cast<std::size_t>(worker_config.stream_count()));
  for (int stream = 0; stream < worker_config.stream_count(); ++stream) {
    shards.push_back(worker_config.logical_shard(stream));
  }
  if (saved_shards != shards) {
    differences.push_back(fmt::format("worker states: {} (of logical shards {}), expected {} ({})",
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
    SavableDatasetCheckpoint& stream = fitted.streams[i];
    const int number = static_cast<int>(i);
    try {
      auto pipeline = make_pipeline(
          {.config = worker_config, .stream = number, .memory = memory, .readers = readers});
      if (!stream.state) {
        stream.state = start_under_rules_of(stream, state.config, *pipeline);
      }
      if (saved_size && *saved_size != *size) {
        rebatch(stream, *saved_size, *size, std::move(pipeline));
      } else {
        check_stream(stream, std::move(pipeline));
      }
    } catch (Error& error) {
      error.with({.worker = worker_config.worker_of(number)});
      throw;
    }
  }
  return fitted;
}

}  // namespace energon
