// energon checkpoint show: what a saved loader state says.

#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/output.h"
#include "energon/loader/loader_state.h"
#include "io/error.h"

namespace energon::cli {
namespace {

struct ShowFlags {
  std::string file;
  bool is_json = false;
};

void print_summary(const SavableDataLoaderState& state, const std::string& file) {
  output().print("saved loader state: {}\n", printable(file));
  output().print(
      "delivered:   {} of this rank\n",
      state.batch_index == 1 ? "1 batch" : with_separators(state.batch_index) + " batches");
  output().print("batch size:  {}\n",
                 state.micro_batch_size ? std::to_string(*state.micro_batch_size) : "not batched");
  output().print("epoch:       {}{}\n", state.epoch, state.epoch_finished ? ", finished" : "");
  output().print("next worker: {} of {}\n", state.next_worker_id, state.worker_states.size());
  for (std::size_t i = 0; i < state.worker_states.size(); ++i) {
    const SavableDatasetCheckpoint& worker = state.worker_states[i];
    output().print(
        "  worker {}: {} batches delivered ({}), epoch {}\n", i, worker.index + worker.offset,
        worker.state ? fmt::format("state after {}, {} to skip", worker.index, worker.offset)
                     : fmt::format("from the start, {} to skip", worker.offset),
        worker.epoch);
  }
}

int run_show(const ShowFlags& flags) {
  const SavableDataLoaderState state = read_loader_state(flags.file);
  if (!flags.is_json) {
    print_summary(state, flags.file);
    output().write("\n");
  }
  output().write(
      describe_loader_state(state).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  output().write("\n");
  return kExitOk;
}

}  // namespace

void add_checkpoint(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand("checkpoint", "Look at saved loader states");
  command->require_subcommand(1);
  CLI::App* const show = command->add_subcommand("show", "Say what a saved loader state contains");
  const auto flags = std::make_shared<ShowFlags>();
  show->add_option("FILE", flags->file, "State, as written by dump --save-to")->required();
  show->add_flag("--json", flags->is_json, "Only the JSON");
  show->callback([flags, &run] { run = [flags] { return run_show(*flags); }; });
}

}  // namespace energon::cli
