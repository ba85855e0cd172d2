// energon checkpoint import: converts states of Energon's loader into ours.

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/loader_flags.h"
#include "cli/output.h"
#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/megatron/energon_state.h"
#include "io/error.h"

namespace energon::cli {
namespace {

struct ImportFlags {
  LoaderFlags loader;
  std::vector<std::string> files;
  std::string output;
};

// The layout of the states, which the flags may omit but must not contradict.
WorkerConfig layout_of_states(const ImportFlags& flags,
                              const std::vector<EnergonRankState>& states) {
  WorkerConfig layout = loader_options(flags.loader).worker_config;
  if (!flags.loader.is_given("world_size")) {
    layout.world_size = static_cast<int>(states.size());
  }
  layout = energon_layout(states, layout);
  if (flags.loader.is_given("num_workers") &&
      layout.num_workers != flags.loader.options.loader.worker_config.num_workers) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("--num-workers is {}, but the states have {} workers: omit it, and change the "
                    "number with `energon checkpoint rescale`",
                    flags.loader.options.loader.worker_config.num_workers, layout.num_workers),
        {.path = states.front().path});
  }
  return layout;
}

std::string how_to_restore(const WorkerConfig& layout) {
  return fmt::format("restore it with --world-size {} --num-workers {} and the same other flags",
                     layout.world_size, layout.num_workers);
}

// After Energon's `checkpoint redist`, ranks may differ by a batch.
SavableJobState merged(std::vector<SavableDataLoaderState> ranks) {
  try {
    return merge_states(std::move(ranks));
  } catch (const Error& error) {
    throw Error(
        error.code(),
        fmt::format(
            "{}\nimport the state of each rank into its own file, with --rank and --world-size",
            error.message()));
  }
}

// The states of Energon may be the only copies.
void refuse_overwriting(const ImportFlags& flags) {
  for (const std::string& file : flags.files) {
    std::error_code is_missing;
    if (std::filesystem::equivalent(file, flags.output, is_missing)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "--output would overwrite an input state of Energon: specify another file",
                  {.path = flags.output});
    }
  }
}

int run_import(const ImportFlags& flags) {
  refuse_overwriting(flags);
  const std::vector<EnergonRankState> states = read_energon_states(flags.files, check_interrupt);
  WorkerConfig layout = layout_of_states(flags, states);
  const PipelineFactory pipeline = make_pipeline(flags.loader);
  const EnergonImportOptions options{.check_cancelled = check_interrupt};
  if (states.size() == 1 && layout.world_size > 1) {
    const SavableDataLoaderState rank =
        import_energon_state(states.front(), pipeline, layout, options);
    write_loader_state(flags.output, rank);
    output().print("{}: rank {} of {}, {} batches\n", printable(flags.output), layout.rank,
                   layout.world_size, rank.batch_index);
  } else {
    std::vector<SavableDataLoaderState> ranks;
    for (layout.rank = 0; layout.rank < layout.world_size; ++layout.rank) {
      ranks.push_back(import_energon_state(states[static_cast<std::size_t>(layout.rank)], pipeline,
                                           layout, options));
    }
    const SavableJobState job = merged(std::move(ranks));
    write_job_state(flags.output, job);
    output().print("{}: {} ranks, {} batches of rank 0\n", printable(flags.output),
                   job.ranks.size(), job.ranks.front().batch_index);
  }
  output().print("{}\n", how_to_restore(layout));
  return kExitOk;
}

}  // namespace

void add_checkpoint_import(CLI::App& checkpoint, Run& run) {
  CLI::App* const command = checkpoint.add_subcommand(
      "import", "Convert states that megatron-energon's loader saved (torch.save, pickle)");
  const auto flags = std::make_shared<ImportFlags>();
  add_loader_flags(*command, flags->loader, PathCount::kOne);
  command
      ->add_option("STATES", flags->files,
                   "Files of all ranks in order (save_state_rank), one file with all ranks "
                   "(save_state_global), or the file of --rank with --world-size")
      ->required();
  command
      ->add_option("--output", flags->output,
                   "Write the state of the job, or of --rank, to this file")
      ->required();
  command->callback([flags, &run] { run = [flags] { return run_import(*flags); }; });
}

}  // namespace energon::cli
