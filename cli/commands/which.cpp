// energon which-step, which-keys: when a sample was delivered, and what a step delivered
// (wrappers/recipe/delivered_samples.h). The state may come from any program whose functions make
// one sample from each sample (wrappers/recipe/order_pipeline.h).

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/command.h"
#include "cli/job/at_least.h"
#include "cli/job/interrupt.h"
#include "cli/job/loader_flags.h"
#include "cli/job/loader_from_flags.h"
#include "cli/job/open_dataset.h"
#include "cli/show/output.h"
#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/state_config.h"
#include "energon/loader/delivered_items.h"
#include "io/error.h"
#include "wrappers/recipe/delivered_samples.h"

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

int run_which_step(const WhichFlags& flags) {
  const std::vector<SavableDataLoaderState> ranks = ranks_in(flags.state);
  const PipelineData data = open_loader_data(flags.loader);
  const auto wanted = locate_samples(
      look_up_samples(flags.loader.path, flags.key, {.open = key_lookup_options(flags.loader)}),
      data);
  bool is_found = false;
  const auto print = [&](const Delivery& delivery) {
    output().print(R"({{"key":{},"step":{},"rank":{},"position":{},"restore_key":{}}})"
                   "\n",
                   quoted_json(flags.key), delivery.step, delivery.rank, delivery.position,
                   quoted_json(delivery.restore_key.text()));
    is_found = true;
  };
  for (const SavableDataLoaderState& rank : ranks) {
    DeliveredItems items = items_of(rank, flags.loader, data, flags.state);
    for_each_delivery(items, wanted, print, check_interrupt);
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
    const DeliveredStep step = keys_of_step(items, data, flags.step, check_interrupt);
    std::string keys;
    for (const std::string& key : step.keys) {
      keys += (keys.empty() ? "" : ",") + quoted_json(key);
    }
    output().print(R"({{"step":{},"rank":{},"keys":[{}],"restore_key":{}}})"
                   "\n",
                   flags.step, step.rank, keys, quoted_json(step.restore_key.text()));
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
