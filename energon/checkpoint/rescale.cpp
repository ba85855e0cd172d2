#include "energon/checkpoint/rescale.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/state_config.h"
#include "energon/state/state.h"
#include "io/error.h"

namespace energon {
namespace {

// Converts the positions of adapters (SavableDataLoaderState::adapters) to another layout.

StateValue& field(State& node, std::string_view name) {
  const auto found = std::find_if(node.fields.begin(), node.fields.end(),
                                  [name](const auto& field) { return field.first == name; });
  if (found == node.fields.end()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the adapter {} in the state has no '{}'", node.type, name));
  }
  return found->second;
}

// Batches that the ranks in `epoch` delivered in it; the largest number if they differ.
std::int64_t batches_in(const SavableJobState& job, std::size_t adapter, std::int64_t epoch) {
  std::int64_t batches = 0;
  for (const SavableDataLoaderState& rank : job.ranks) {
    const State& node = rank.adapters[adapter];
    if (node.integer("epoch") == epoch) {
      batches = std::max(batches, node.integer("batches"));
    }
  }
  return batches;
}

// The same number of samples in batches of the new size.
std::int64_t batches_of_size(const SavableJobState& job, const JobLayout& layout,
                             std::int64_t batches) {
  const std::int64_t old_size = job.ranks.front().micro_batch_size.value_or(1);
  return batches * old_size / layout.micro_batch_size.value_or(old_size);
}

// Taken from old rank `rank` modulo the old ranks, or from the first one that has some.
std::string first_batches_of(const SavableJobState& job, std::size_t adapter, int rank) {
  constexpr std::size_t kNone = sizeof(std::uint32_t);  // bytes of an empty list
  std::string bytes;
  for (std::size_t i = 0; i < job.ranks.size() && bytes.size() <= kNone; ++i) {
    const std::size_t old = (static_cast<std::size_t>(rank) + i) % job.ranks.size();
    bytes = job.ranks[old].adapters[adapter].bytes("first_batches");
  }
  return bytes;
}

State rescale_shard(const SavableJobState& job, std::size_t adapter, const JobLayout& layout,
                    int rank, std::int64_t epoch) {
  State node = job.ranks.front().adapters[adapter];
  const std::int64_t batches = batches_of_size(job, layout, batches_in(job, adapter, epoch)) *
                               std::ssize(job.ranks) / layout.world_size;
  field(node, "epoch") = epoch;
  field(node, "batches") = batches;
  field(node, "source_ended") = std::int64_t{0};  // the loader itself reports that it is empty
  field(node, "first_batches") = first_batches_of(job, adapter, rank);
  field(node, "repeated") = std::int64_t{0};
  Config settings = Config::parse(node.bytes("settings"), nullptr, false);
  if (settings.is_object() && settings.contains("ranks") && !settings["ranks"].is_null()) {
    settings["ranks"] = layout.world_size;
    field(node, "settings") = settings.dump();
  }
  return node;
}

State rescale_dispatch(const SavableJobState& job, std::size_t adapter, const JobLayout& layout,
                       std::int64_t epoch) {
  if (layout.world_size != 1) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("one rank of this job reads for all ranks, so it has a single position, "
                    "which cannot be divided among {} ranks",
                    layout.world_size));
  }
  State node = job.ranks.front().adapters[adapter];
  const std::int64_t old_size = job.ranks.front().micro_batch_size.value_or(1);
  const std::int64_t new_size = layout.micro_batch_size.value_or(old_size);
  field(node, "epoch") = epoch;
  field(node, "batches") = batches_of_size(job, layout, batches_in(job, adapter, epoch));
  field(node, "full_samples") = node.integer("full_samples") / old_size * new_size;
  return node;
}

State rescale_skip(const SavableJobState& job, std::size_t adapter) {
  State node = job.ranks.front().adapters[adapter];
  for (const SavableDataLoaderState& rank : job.ranks) {
    if (const std::int64_t left = rank.adapters[adapter].integer("left"); left > 0) {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("each rank still has {} batches to skip, which would be different ones "
                      "on another layout: take the first batch, then rescale",
                      left));
    }
  }
  field(node, "shortened_by") = std::int64_t{0};
  return node;
}

/// The adapters of rank `rank` of `layout`, whose loader continues in `epoch`. Converts the steps
/// of the epoch to the number that the ranks of `layout` need for the same batches. Padding batches
/// come from an old rank. Throws Error: kInvalidArgument if one rank reads for all and `layout` has
/// several; kUnsupported for an adapter that cannot be rescaled.
std::vector<State> rescale_adapters(const SavableJobState& job, const JobLayout& layout, int rank,
                                    std::int64_t epoch) {
  std::vector<State> adapters;
  for (std::size_t i = 0; i < job.ranks.front().adapters.size(); ++i) {
    const std::string& type = job.ranks.front().adapters[i].type;
    if (type == "Shard") {
      adapters.push_back(rescale_shard(job, i, layout, rank, epoch));
    } else if (type == "Dispatch") {
      adapters.push_back(rescale_dispatch(job, i, layout, epoch));
    } else if (type == "SkipFirst") {
      adapters.push_back(rescale_skip(job, i));
    } else {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("the position of the adapter {} cannot be converted to another layout",
                      printable(type)));
    }
  }
  return adapters;
}

// The divisors of `count` that are nearest to `world_size`, at most two on each side.
std::vector<int> nearest_world_sizes(int count, int world_size) {
  std::vector<int> below;
  std::vector<int> above;
  for (int divisor = 1; divisor <= count; ++divisor) {
    if (count % divisor == 0) {
      (divisor < world_size ? below : above).push_back(divisor);
    }
  }
  std::vector<int> nearest(below.end() - std::min<std::ptrdiff_t>(2, std::ssize(below)),
                           below.end());
  nearest.insert(nearest.end(), above.begin(),
                 above.begin() + std::min<std::ptrdiff_t>(2, std::ssize(above)));
  return nearest;
}

void check(const JobLayout& layout, int shards) {
  if (layout.world_size < 1 || layout.num_workers < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("invalid layout of {} ranks with {} workers each", layout.world_size,
                            layout.num_workers));
  }
  const std::int64_t workers = std::int64_t{layout.world_size} * std::max(layout.num_workers, 1);
  if (workers > shards) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the job has {} logical shards, which cannot keep {} workers busy ({} ranks "
                    "with {} each); use at most {} workers in total",
                    shards, workers, layout.world_size, std::max(layout.num_workers, 1), shards));
  }
  if (shards % layout.world_size != 0 && layout.uneven == Uneven::kRefuse) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} logical shards cannot be divided evenly among {} ranks; the nearest "
                    "numbers of ranks that work are {} (or allow an uneven division)",
                    shards, layout.world_size,
                    fmt::join(nearest_world_sizes(shards, layout.world_size), ", ")));
  }
}

// The part of `total` batches of the job that belongs to `rank`: whole rounds, and one more batch
// for the first ranks.
std::int64_t share_of_rank(std::int64_t total, int rank, int world_size) {
  return (total - rank + world_size - 1) / world_size;
}

// The job's steps of `epoch`, converted to steps of `world_size` ranks; nullopt if not known.
std::optional<std::int64_t> step_of(const SavableJobState& job, std::int64_t epoch,
                                    int world_size) {
  std::int64_t steps = 0;
  for (const SavableDataLoaderState& rank : job.ranks) {
    if (rank.epoch != epoch || rank.epoch_finished) {
      continue;
    }
    if (!rank.step_in_epoch) {
      return std::nullopt;
    }
    steps = std::max(steps, *rank.step_in_epoch);
  }
  return steps * std::ssize(job.ranks) / world_size;
}

// The logical shards of the job, in order.
std::vector<SavableDatasetCheckpoint> shards_of(const SavableJobState& job) {
  std::vector<SavableDatasetCheckpoint> shards;
  for (const SavableDataLoaderState& rank : job.ranks) {
    shards.insert(shards.end(), rank.checkpoints.begin(), rank.checkpoints.end());
  }
  std::sort(shards.begin(), shards.end(),
            [](const auto& a, const auto& b) { return a.logical_shard < b.logical_shard; });
  return shards;
}

std::int64_t batches_of(const SavableJobState& job) {
  std::int64_t batches = 0;
  for (const SavableDataLoaderState& rank : job.ranks) {
    batches += rank.batch_index;
  }
  return batches;
}

// `old` on the new layout, for any rank.
WorkerConfig fit(const WorkerConfig& old, const JobLayout& layout, int shards) {
  WorkerConfig fitted = old;
  fitted.world_size = layout.world_size;
  fitted.num_workers = layout.num_workers;
  if (old.logical_shards || layout.world_size * fitted.workers_per_rank() != shards) {
    fitted.division = old.effective_division();
    fitted.logical_shards = shards;
  }
  return fitted;
}

// The configuration of the job on the layout `fitted`, for any rank. Throws Error (kMismatch) if
// the micro batch size cannot change as requested.
Config fit_config(const SavableJobState& job, const WorkerConfig& fitted, const JobLayout& layout) {
  const Config& old = job.ranks.front().config;
  Config config = layout_config(fitted);
  if (const auto draws = old.find("draws"); draws != old.end()) {
    config["draws"] = *draws;
  }
  config["pipeline"] = old.at("pipeline");
  if (layout.micro_batch_size) {
    std::vector<std::string> differences;
    set_micro_batch_size(config, *layout.micro_batch_size);
    check_micro_batch(job.ranks.front().micro_batch_size, layout.micro_batch_size, config,
                      differences);
    if (!differences.empty()) {
      throw Error(ErrorCode::kMismatch, fmt::format("{}", fmt::join(differences, "; ")));
    }
  }
  return config;
}

// The epoch that the job is in: that of the logical shard which is furthest behind.
std::int64_t epoch_of(const std::vector<SavableDatasetCheckpoint>& shards) {
  std::int64_t epoch = shards.front().turn.epoch;
  for (const SavableDatasetCheckpoint& checkpoint : shards) {
    epoch = std::min(epoch, checkpoint.turn.epoch);
  }
  return epoch;
}

// The logical shards of the rank of `layout`, in order.
std::vector<SavableDatasetCheckpoint> shards_of_rank(
    const std::vector<SavableDatasetCheckpoint>& shards, const WorkerConfig& layout) {
  std::vector<SavableDatasetCheckpoint> result;
  for (int local_index = 0; local_index < layout.logical_shards_per_rank(); ++local_index) {
    result.push_back(shards[static_cast<std::size_t>(layout.logical_shard(local_index))]);
  }
  return result;
}

}  // namespace

SavableJobState rescale(const SavableJobState& job, const JobLayout& layout) {
  const Config& old_config = job.ranks.front().config;
  if (is_source_config(old_config)) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the position belongs to a source without logical shards ({}), which "
                            "cannot be divided among other ranks",
                            source_kind(job.ranks.front())));
  }
  const WorkerConfig old = layout_of(old_config);
  const std::vector<SavableDatasetCheckpoint> shards = shards_of(job);
  const int count = static_cast<int>(shards.size());
  check(layout, count);
  WorkerConfig fitted = fit(old, layout, count);
  const Config config = fit_config(job, fitted, layout);
  const std::int64_t batches = batches_of(job);
  const std::int64_t epoch = epoch_of(shards);
  const std::optional<std::int64_t> step = step_of(job, epoch, layout.world_size);
  SavableJobState rescaled;
  for (int rank = 0; rank < layout.world_size; ++rank) {
    fitted.rank = rank;
    SavableDataLoaderState state;
    state.config = config;
    (*state.config)["rank"] = rank;
    state.checkpoints = shards_of_rank(shards, fitted);
    state.epoch = epoch;
    state.next_worker_id = next_worker_id_of(state);
    state.batch_index = share_of_rank(batches, rank, layout.world_size);
    state.step_in_epoch = step;
    state.micro_batch_size = job.ranks.front().micro_batch_size;
    state.adapters = rescale_adapters(job, layout, rank, epoch);
    rescaled.ranks.push_back(std::move(state));
  }
  return rescaled;
}

}  // namespace energon
