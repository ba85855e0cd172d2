// energon which-step, which-keys: when a sample was delivered, and what a step delivered
// (wrappers/recipe/delivered_samples.h). The state may come from any program whose functions make
// one sample from each sample and leave none out (wrappers/recipe/order_pipeline.h). Samples that
// could not be read or decoded may be missing.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/loader_flags.h"
#include "cli/open_dataset.h"
#include "cli/output.h"
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

// The capacity of the shuffle buffer in an order; 0 if there is none.
std::int64_t shuffle_buffer_size(const Config& config) {
  const Config* node = &config.at("pipeline");
  while (node->is_object()) {
    if (node->value("type", "") == "ShuffleBuffer") {
      return node->value("size", std::int64_t{0});
    }
    const auto inner = node->find(node->contains("order") ? "order" : "inner");
    if (inner == node->end()) {
      break;
    }
    node = &*inner;
  }
  return 0;
}

// The flags with the values of the state, where they differ from `flags`. Empty if the state shows
// no difference.
std::string flags_of(const Config& config, const LoaderFlags& flags) {
  const TrainOptions& train = flags.options.train;
  std::string text;
  if (const auto size = micro_batch_size(config); size && size != train.batch_size) {
    text += fmt::format(" --batch-size {}", *size);
  }
  const std::int64_t buffer = shuffle_buffer_size(config);
  if (buffer != (train.shuffle_buffer_size > 1 ? train.shuffle_buffer_size : 0)) {
    text += fmt::format(" --shuffle-buffer-size {}", buffer);
  }
  return text;
}

// Only reading and decoding can be repeated here.
JobPipelines pipelines_of(const LoaderFlags& flags, const PipelineData& data) {
  return {[&](const Config& config) { return make_order_pipeline(flags, data, config); },
          [&](const Config& config) { return make_replay_pipeline(flags, data, config); }};
}

// Calls `compute` for one rank, and adds the path of the state and advice to its errors.
template <class Compute>
auto explain(const SavableDataLoaderState& rank, const WhichFlags& flags, const Compute& compute) {
  try {
    return compute(std::span(&rank, 1));
  } catch (Error& error) {
    error.with({.path = flags.state});
    if (error.code() != ErrorCode::kMismatch) {
      throw;
    }
    const std::string given = flags_of(rank.config, flags.loader);
    const std::string advice =
        given.empty() ? "Give the data and flags of the job, with --decode and --verify-checksums. "
                        "If its functions left out samples, ask the program itself (Python: "
                        "which_step(), which_keys(); C++: find_deliveries(), keys_of_step()), or "
                        "use the restore keys in its debug log (energon get --restore-key)"
                      : "The state was saved with" + given;
    throw Error(error.code(), fmt::format("{}\n{}", error.message(), advice), error.context());
  }
}

// "the 322nd" for step 321.
std::string ordinal(std::int64_t step) {
  const std::int64_t number = step + 1;
  const std::int64_t last = number % 10;
  const bool is_teen = number / 10 % 10 == 1;
  const char* const ending = is_teen     ? "th"
                             : last == 1 ? "st"
                             : last == 2 ? "nd"
                             : last == 3 ? "rd"
                                         : "th";
  return fmt::format("the {}{}", number, ending);
}

int run_which_step(const WhichFlags& flags) {
  const std::vector<SavableDataLoaderState> ranks = ranks_in(flags.state);
  const PipelineData data = open_loader_data(flags.loader);
  const JobPipelines pipelines = pipelines_of(flags.loader, data);
  const auto wanted = locate_samples(
      look_up_samples(flags.loader.path, flags.key, {.open = key_lookup_options(flags.loader)}),
      data);
  bool is_found = false;
  for (const SavableDataLoaderState& rank : ranks) {
    const auto deliveries = explain(rank, flags, [&](const auto& one) {
      return find_deliveries(one, pipelines, wanted, check_interrupt);
    });
    for (const Delivery& delivery : deliveries) {
      output().print(R"({{"key":{},"step":{},"batch":"{}","rank":{},"position":{},)"
                     R"("restore_key":{}}})"
                     "\n",
                     quoted_json(flags.key), delivery.step, ordinal(delivery.step), delivery.rank,
                     delivery.position, quoted_json(delivery.restore_key.text()));
      is_found = true;
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
  const JobPipelines pipelines = pipelines_of(flags.loader, data);
  for (const SavableDataLoaderState& rank : ranks) {
    const std::vector<DeliveredStep> steps = explain(rank, flags, [&](const auto& one) {
      return keys_of_step(one, pipelines, data, flags.step, check_interrupt);
    });
    const DeliveredStep& step = steps.front();
    if (!step.is_delivered) {
      print_warning(
          fmt::format("rank {} had not delivered step {} yet: the state is at step {}. These are "
                      "the keys that a job restored from this state delivers if it leaves out no "
                      "more samples",
                      step.rank, flags.step, delivered_items(rank)));
    }
    std::string keys;
    for (const std::string& key : step.keys) {
      keys += (keys.empty() ? "" : ",") + quoted_json(key);
    }
    output().print(R"({{"step":{},"batch":"{}","rank":{},"delivered":{},"keys":[{}],)"
                   R"("restore_key":{}}})"
                   "\n",
                   step.step, ordinal(step.step), step.rank, step.is_delivered, keys,
                   quoted_json(step.restore_key.text()));
  }
  return kExitOk;
}

}  // namespace

void add_which(CLI::App& app, Run& run) {
  CLI::App* const step = app.add_subcommand(
      "which-step", "Show the steps before a saved state at which a sample was delivered");
  const auto step_flags = std::make_shared<WhichFlags>();
  add_loader_flags(*step, step_flags->loader, PathCount::kOne);
  step->add_option("STATE", step_flags->state, "State of a rank or a job")->required();
  step->add_option("KEY", step_flags->key, "Key of the sample")->required();
  on_run(*step, step_flags, run, run_which_step);

  CLI::App* const keys =
      app.add_subcommand("which-keys", "Show the keys that a step of a saved job delivered");
  const auto keys_flags = std::make_shared<WhichFlags>();
  add_loader_flags(*keys, keys_flags->loader, PathCount::kOne);
  keys->add_option("STATE", keys_flags->state, "State of a rank or a job")->required();
  keys->add_option("STEP", keys_flags->step,
                   "Step, counted from 0: step 0 is the first batch of each rank")
      ->required()
      ->check(at_least(0));
  on_run(*keys, keys_flags, run, run_which_keys);
}

}  // namespace energon::cli
