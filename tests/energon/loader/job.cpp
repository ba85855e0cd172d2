#include "tests/energon/loader/job.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/memory_leaf.h"

namespace energon::testing {

PipelineFactory in_memory(const std::vector<std::int64_t>& counts, TrainOptions options) {
  return train_pipeline(std::shared_ptr<const MemoryLeaf>(std::make_shared<MemoryLeaf>("", counts)),
                        std::move(options));
}

TrainOptions one_epoch() {
  TrainOptions options;
  options.repeat = false;
  return options;
}

Job::Job(const PipelineFactory& pipeline, const JobSpec& spec)
    : shows_contents_(spec.shows_contents) {
  for (int rank = 0; rank < spec.world_size; ++rank) {
    ranks_.push_back(std::make_unique<SavableDataLoader>(
        pipeline, LoaderOptions{.worker_config = {.rank = rank,
                                                  .world_size = spec.world_size,
                                                  .num_workers = spec.num_workers,
                                                  .logical_shards = spec.logical_shards,
                                                  .division = spec.division,
                                                  .allow_uneven = spec.allow_uneven},
                                .epoch_policy = spec.epoch_policy,
                                .checkpoint_every_batches = spec.checkpoint_every_batches}));
  }
}

void Job::restore(const SavableJobState& job) {
  std::int64_t delivered = 0;
  for (int rank = 0; rank < world_size(); ++rank) {
    const SavableDataLoaderState& state = state_of_rank(job, rank);
    ranks_[static_cast<std::size_t>(rank)]->restore_state_rank(state);
    delivered += state.batch_index;
  }
  first_rank_ = delivered % world_size();
}

std::string Job::next(int rank) {
  const auto batch = ranks_[static_cast<std::size_t>(rank)]->next();
  if (!batch) {
    return kEpochEnd;
  }
  return shows_contents_ ? label(*batch) : fmt::format("{}", fmt::join(batch->keys, ","));
}

std::vector<std::string> Job::steps(std::int64_t count) {
  std::vector<std::string> batches;
  for (std::int64_t i = 0; i < count * world_size(); ++i) {
    batches.push_back(next(static_cast<int>((first_rank_ + i) % world_size())));
  }
  return batches;
}

std::vector<std::string> Job::rest_of_epoch() {
  std::vector<std::string> batches;
  for (int rank = 0; rank < world_size(); ++rank) {
    for (std::string batch = next(rank); batch != kEpochEnd; batch = next(rank)) {
      batches.push_back(std::move(batch));
    }
  }
  return batches;
}

SavableJobState Job::save() {
  std::vector<SavableDataLoaderState> states;
  for (const auto& rank : ranks_) {
    states.push_back(rank->save_state_rank());
  }
  return merge_states(std::move(states));
}

}  // namespace energon::testing
