// energon which-step, which-keys: when a sample was delivered, and what a step delivered. Computed
// from a saved state and the order, without a log and without reading what was passed over. The
// state may be of any program whose functions make one sample of one
// (wrappers/recipe/order_pipeline.h).
//
// Steps are those of the state's layout, from the beginning of the run. A job that was rescaled
// counts as if it always had that layout: with logical shards set by the user its batches are the
// same, whatever ranks they went to.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/command.h"
#include "cli/job/at_least.h"
#include "cli/job/find_sample.h"
#include "cli/job/interrupt.h"
#include "cli/job/loader_flags.h"
#include "cli/job/referenced_samples.h"
#include "cli/show/output.h"
#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/state_config.h"
#include "energon/loader/delivered_items.h"
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

DeliveredItems items_of(const SavableDataLoaderState& rank, const LoaderFlags& flags,
                        const PipelineData& data, const std::string& file) {
  try {
    return DeliveredItems(rank, make_order_pipeline(flags, data, rank.config));
  } catch (Error& error) {
    error.with({.path = file});
    throw;
  }
}

std::optional<DeliveredItem> next_of(DeliveredItems& items) {
  if (interrupt_signal() != 0) {
    throw Error(ErrorCode::kCancelled, "interrupted");
  }
  return items.next();
}

// Whichever way a path was written.
std::filesystem::path shard_path(const std::string& dataset, const std::string& shard) {
  return std::filesystem::weakly_canonical(std::filesystem::path(dataset) / shard);
}

using Samples = std::set<std::pair<std::uint32_t, std::int64_t>>;  // leaf, index

// All samples with the key that `flags` ask for, in the leaves of the pipeline.
Samples samples_with_key(const WhichFlags& flags, const PipelineData& data) {
  std::multimap<std::filesystem::path, std::int64_t> places;  // shards, and indices in them
  for (const FoundSample& found :
       find_samples(flags.loader.path, flags.key, key_lookup_options(flags.loader))) {
    const SampleSource& source = source_of(found.sample, 0);
    places.emplace(shard_path(source.shard->dataset_path, source.shard->shard_name),
                   source.index_in_shard);
  }
  Samples samples;
  for (std::size_t leaf = 0; leaf < data.leaves.size(); ++leaf) {
    const auto reader = data.leaves[leaf].dataset->open_reader();
    std::int64_t first = 0;
    for (const std::int64_t count : data.leaves[leaf].dataset->shard_counts()) {
      if (count > 0) {
        const FailedSample begin = reader->describe(first);
        const auto [from, to] =
            places.equal_range(shard_path(begin.dataset_path, begin.shard_name));
        for (auto place = from; place != to; ++place) {
          samples.emplace(static_cast<std::uint32_t>(leaf), first + place->second);
        }
      }
      first += count;
    }
  }
  return samples;
}

int run_which_step(const WhichFlags& flags) {
  const std::vector<SavableDataLoaderState> ranks = ranks_in(flags.state);
  const PipelineData data = open_loader_data(flags.loader);
  const Samples wanted = samples_with_key(flags, data);
  bool is_found = false;
  for (const SavableDataLoaderState& rank : ranks) {
    DeliveredItems items = items_of(rank, flags.loader, data, flags.state);
    for (auto item = next_of(items); item && item->step < rank.batch_index; item = next_of(items)) {
      for (std::size_t i = 0; i < item->samples.size(); ++i) {
        if (wanted.contains({item->samples[i].leaf, item->samples[i].index})) {
          output().print(R"({{"key":{},"step":{},"rank":{},"position":{},"restore_key":{}}})"
                         "\n",
                         quoted_json(flags.key), item->step, layout_of(rank.config).rank, i,
                         quoted_json(item->restore_key.text()));
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
  for (const SavableDataLoaderState& rank : ranks) {
    if (flags.step >= rank.batch_index) {
      print_warning(fmt::format("rank {} had not delivered step {} yet: the state is at step {}",
                                layout_of(rank.config).rank, flags.step, rank.batch_index));
    }
  }
  for (const SavableDataLoaderState& rank : ranks) {
    DeliveredItems items = items_of(rank, flags.loader, data, flags.state);
    std::optional<DeliveredItem> item;
    for (std::int64_t step = 0; step <= flags.step; ++step) {
      item = next_of(items);
      if (!item) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("rank {} has no step {}: its data ends at {}",
                                layout_of(rank.config).rank, flags.step, step));
      }
    }
    std::string keys;
    for (const Sample& sample : read_samples(item->samples, data)) {
      keys += (keys.empty() ? "" : ",") + quoted_json(sample.keys.at(0));
    }
    output().print(R"({{"step":{},"rank":{},"keys":[{}],"restore_key":{}}})"
                   "\n",
                   flags.step, layout_of(rank.config).rank, keys,
                   quoted_json(item->restore_key.text()));
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
