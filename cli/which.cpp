// energon which-step, which-keys: when a sample was delivered, and what a step delivered. Computed
// from a saved state and the order, without a log and without reading what was passed over.
//
// Steps are those of the state's layout, from the beginning of the run. A job that was rescaled
// counts as if it always had that layout: with logical shards set by the user its batches are the
// same, whatever ranks they went to.

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/at_least.h"
#include "cli/command.h"
#include "cli/find_sample.h"
#include "cli/interrupt.h"
#include "cli/loader_flags.h"
#include "cli/output.h"
#include "cli/reference_leaf.h"
#include "energon/loader/job_state.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/loader/state_config.h"
#include "io/error.h"

namespace energon::cli {
namespace {

struct WhichFlags {
  LoaderFlags loader;
  std::string state;
  std::string key;
  std::int64_t step = 0;
};

std::vector<SavableDataLoaderState> ranks_in(const std::string& file) {
  SavedState saved = read_saved_state(file);
  if (auto* job = std::get_if<SavableJobState>(&saved)) {
    return std::move(job->ranks);
  }
  return {std::get<SavableDataLoaderState>(std::move(saved))};
}

// The options of the loader of a rank, with the layout of its state. The order does not depend on
// the number of workers once logical shards are set.
LoaderOptions options_of(const SavableDataLoaderState& rank, const LoaderFlags& flags) {
  LoaderFlags own = flags;
  const WorkerConfig layout = layout_of(rank.config);
  own.rank = layout.rank;
  own.world_size = layout.world_size;
  LoaderOptions options = loader_options(own);
  options.worker_config = layout;
  return options;
}

void check_flags(const SavableDataLoaderState& rank, const PipelineFactory& pipeline,
                 const std::string& file) {
  std::vector<std::string> differences;
  compare_configs(state_config(pipeline, layout_of(rank.config)), rank.config, "", differences);
  if (!differences.empty()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the state was saved with other data or flags; give those:\n  {}",
                            fmt::join(differences, "\n  ")),
                {.path = file});
  }
}

// The stream of a rank from its beginning; nothing: it ended.
class RankStreamFromStart {
 public:
  RankStreamFromStart(const PipelineFactory& pipeline, const SavableDataLoaderState& rank,
                      const LoaderFlags& flags)
      : loader_(pipeline, options_of(rank, flags)) {}

  std::optional<Sample> next() {
    if (interrupt_signal() != 0) {
      throw Error(ErrorCode::kCancelled, "interrupted");
    }
    auto batch = loader_.next();
    return batch ? std::move(batch) : loader_.next();  // the next epoch
  }
  Sample restore_sample(const RestoreKey& key) { return loader_.restore_sample(key); }

 private:
  SavableDataLoader loader_;
};

// Whichever way a path was written.
std::filesystem::path shard_path(const std::string& dataset, const std::string& shard) {
  return std::filesystem::weakly_canonical(std::filesystem::path(dataset) / shard);
}

// The references of all samples with the key that `flags` ask for, in the leaves of the pipeline.
std::vector<std::string> references(const WhichFlags& flags, const PipelineData& data) {
  std::multimap<std::filesystem::path, std::int64_t> places;  // shards, and indices in them
  for (const FoundSample& found :
       find_samples(flags.loader.path, flags.key, key_lookup_options(flags.loader))) {
    const SampleSource& source = source_of(found.sample, 0);
    places.emplace(shard_path(source.shard->dataset_path, source.shard->shard_name),
                   source.index_in_shard);
  }
  std::vector<std::string> keys;
  for (std::size_t leaf = 0; leaf < data.leaves.size(); ++leaf) {
    const auto reader = data.leaves[leaf].dataset->open_reader();
    std::int64_t first = 0;
    for (const std::int64_t count : data.leaves[leaf].dataset->shard_counts()) {
      if (count > 0) {
        const FailedSample begin = reader->describe(first);
        const auto [from, to] =
            places.equal_range(shard_path(begin.dataset_path, begin.shard_name));
        for (auto place = from; place != to; ++place) {
          keys.push_back(reference_key(leaf, first + place->second));
        }
      }
      first += count;
    }
  }
  return keys;
}

int run_which_step(const WhichFlags& flags) {
  const std::vector<SavableDataLoaderState> ranks = ranks_in(flags.state);
  const PipelineData data = open_loader_data(flags.loader);
  const PipelineFactory pipeline = make_reference_pipeline(flags.loader, data);
  check_flags(ranks.front(), pipeline, flags.state);
  const std::vector<std::string> wanted = references(flags, data);  // repeated ones do no harm
  bool is_found = false;
  for (const SavableDataLoaderState& rank : ranks) {
    RankStreamFromStart stream(pipeline, rank, flags.loader);
    for (std::int64_t step = 0; step < rank.batch_index; ++step) {
      const auto batch = stream.next();
      if (!batch) {
        break;
      }
      for (std::size_t i = 0; i < batch->keys.size(); ++i) {
        if (std::find(wanted.begin(), wanted.end(), batch->keys[i]) != wanted.end()) {
          output().print(R"({{"key":{},"step":{},"rank":{},"position":{},"restore_key":{}}})"
                         "\n",
                         quoted_json(flags.key), step, layout_of(rank.config).rank, i,
                         quoted_json(batch->restore_key.text()));
          is_found = true;
        }
      }
    }
  }
  if (!is_found) {
    print_warning(
        fmt::format("the sample '{}' was not delivered before this state", printable(flags.key)));
  }
  return is_found ? kExitOk : kExitFailure;
}

int run_which_keys(const WhichFlags& flags) {
  const std::vector<SavableDataLoaderState> ranks = ranks_in(flags.state);
  const PipelineData data = open_loader_data(flags.loader);
  const PipelineFactory pipeline = make_reference_pipeline(flags.loader, data);
  check_flags(ranks.front(), pipeline, flags.state);
  for (const SavableDataLoaderState& rank : ranks) {
    if (flags.step >= rank.batch_index) {
      print_warning(fmt::format("rank {} had not delivered step {} yet: the state is at step {}",
                                layout_of(rank.config).rank, flags.step, rank.batch_index));
    }
  }
  const PipelineFactory real = make_pipeline(flags.loader);
  for (const SavableDataLoaderState& rank : ranks) {
    RankStreamFromStart stream(pipeline, rank, flags.loader);
    std::optional<Sample> batch;
    for (std::int64_t step = 0; step <= flags.step; ++step) {
      batch = stream.next();
      if (!batch) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("rank {} has no step {}: its data ends at {}",
                                layout_of(rank.config).rank, flags.step, step));
      }
    }
    RankStreamFromStart reader(real, rank, flags.loader);
    const Sample read = reader.restore_sample(batch->restore_key);
    std::string keys;
    for (const std::string& key : read.keys) {
      keys += (keys.empty() ? "" : ",") + quoted_json(key);
    }
    output().print(R"({{"step":{},"rank":{},"keys":[{}],"restore_key":{}}})"
                   "\n",
                   flags.step, layout_of(rank.config).rank, keys,
                   quoted_json(batch->restore_key.text()));
  }
  return kExitOk;
}

}  // namespace

void add_which(CLI::App& app, Run& run) {
  CLI::App* const step = app.add_subcommand(
      "which-step", "The steps before a saved state at which a sample was delivered");
  const auto step_flags = std::make_shared<WhichFlags>();
  add_loader_flags(*step, step_flags->loader, PathCount::kOne);
  step->add_option("STATE", step_flags->state, "State of a rank or a job")->required();
  step->add_option("KEY", step_flags->key, "Key of the sample")->required();
  step->callback(
      [step_flags, &run] { run = [step_flags] { return run_which_step(*step_flags); }; });

  CLI::App* const keys =
      app.add_subcommand("which-keys", "The keys that a step of a saved job delivered");
  const auto keys_flags = std::make_shared<WhichFlags>();
  add_loader_flags(*keys, keys_flags->loader, PathCount::kOne);
  keys->add_option("STATE", keys_flags->state, "State of a rank or a job")->required();
  keys->add_option("STEP", keys_flags->step, "Step, from 0")->required()->check(at_least(0));
  keys->callback(
      [keys_flags, &run] { run = [keys_flags] { return run_which_keys(*keys_flags); }; });
}

}  // namespace energon::cli
