// A whole job in one process: the loaders of all ranks, driven in step, as by a trainer.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/checkpoint/job_state.h"
#include "energon/loader/savable_data_loader.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::testing {

/// Samples with their index as key, in shards of `counts`, without files.
PipelineFactory in_memory(const std::vector<std::int64_t>& counts, TrainOptions options);

/// Options of a pipeline whose epoch is one pass over the data.
TrainOptions one_epoch();

/// The layout of a job.
struct JobSpec {
  int world_size = 1;
  int num_workers = 0;
  std::optional<int> logical_shards = std::nullopt;
  bool allow_uneven = false;
  EpochPolicy epoch_policy = EpochPolicy::kStrict;
  Division division = Division::kEven;
  std::optional<std::int64_t> checkpoint_every_batches = std::nullopt;
  /// The description of a batch from next(): its keys, or its restore key and the digest of its
  /// contents.
  bool shows_contents = false;
};

class Job {
 public:
  Job(const PipelineFactory& pipeline, const JobSpec& spec);

  /// Continues from `job`, each rank from its own part.
  void restore(const SavableJobState& job);

  /// The keys of the next batch of `rank`, joined by commas, or its contents; kEpochEnd at the end
  /// of an epoch.
  std::string next(int rank);
  /// `count` steps: at each, a batch of every rank. Returns the batches in the order of the job:
  /// the batches of a step by rank, beginning with the rank whose turn it is.
  std::vector<std::string> steps(std::int64_t count);
  /// The batches of every rank until the end of its epoch, rank after rank.
  std::vector<std::string> rest_of_epoch();

  SavableJobState save();
  int world_size() const { return static_cast<int>(ranks_.size()); }

 private:
  bool shows_contents_;
  std::vector<std::unique_ptr<SavableDataLoader>> ranks_;
  std::int64_t first_rank_ = 0;  // whose turn it is at the beginning of a step
};

}  // namespace energon::testing
