// energon checkpoint: shows, checks, compares, merges and rescales saved states
// (checkpoint_import.cpp converts those of Energon).

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/open_dataset.h"
#include "cli/output.h"
#include "energon/checkpoint/certificate.h"
#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/rescale.h"
#include "energon/checkpoint/state_config.h"
#include "io/error.h"
#include "io/hash.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::cli {
namespace {

/// Whether the state is that of a loader without adapters, not of a source of the user.
bool is_state_of_loader(const SavableDataLoaderState& state) {
  return state.adapters.empty() && !is_source_config(state.config);
}

nlohmann::ordered_json describe(const SavedState& saved) {
  const auto* job = std::get_if<SavableJobState>(&saved);
  return job != nullptr ? describe_job_state(*job)
                        : describe_loader_state(std::get<SavableDataLoaderState>(saved));
}

// --- show ---

template <class... Args>
void append(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

std::string describe_batch_size(const SavableDataLoaderState& state) {
  if (!state.micro_batch_size) {
    return "not batched";
  }
  const auto wanted = micro_batch_size(state.config).value_or(*state.micro_batch_size);
  return wanted == *state.micro_batch_size
             ? std::to_string(wanted)
             : fmt::format("{}, {} from now on", *state.micro_batch_size, wanted);
}

void append_shards(std::string& text, const SavableDataLoaderState& state) {
  if (is_source_config(state.config)) {
    return;  // its batches are not counted by logical shard
  }
  for (const SavableDatasetCheckpoint& shard : state.checkpoints) {
    append(text, "  logical shard {}: {} delivered ({}), epoch {}\n", shard.logical_shard,
           plural(shard.index + shard.offset, "batch", "batches"),
           shard.state ? fmt::format("state after {}, {} to skip", shard.index, shard.offset)
                       : fmt::format("from the start, {} to skip", shard.offset),
           shard.turn.epoch);
  }
}

void append_rank(std::string& text, const SavableDataLoaderState& state) {
  append(text, "delivered:   {} of this rank\n", plural(state.batch_index, "batch", "batches"));
  append(text, "epoch:       {}{}\n", state.epoch, state.epoch_finished ? ", finished" : "");
  append(text, "next worker: {} of {}\n", state.next_worker_id, state.checkpoints.size());
  append_shards(text, state);
}

void append_source(std::string& text, const SavableDataLoaderState& state,
                   const Certificate& certificate) {
  if (!is_state_of_loader(state)) {
    append(text, "state of:    {}\n", source_kind(state));
  }
  append(text, "batch size:  {}\n", describe_batch_size(state));
  append(text, "certificate: {}\n", to_hex(certificate.digest));
}

/// Several lines, each ended by a newline. `file` is the file that the state was read from.
std::string summarize_state(const SavedState& saved, const std::string& file) {
  std::string text;
  if (const auto* rank = std::get_if<SavableDataLoaderState>(&saved)) {
    append(text, "saved loader state: {}\n", printable(file));
    append_source(text, *rank, certificate_of(*rank));
    append_rank(text, *rank);
    return text;
  }
  const auto& job = std::get<SavableJobState>(saved);
  append(text, "saved state of a job of {} ranks: {}\n", job.ranks.size(), printable(file));
  append_source(text, job.ranks.front(), certificate_of(job));
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    append(text, "rank {}\n", rank);
    append_rank(text, job.ranks[rank]);
  }
  return text;
}

struct ShowFlags {
  std::string file;
  bool is_json = false;
};

int run_show(const ShowFlags& flags) {
  const SavedState saved = read_saved_state(flags.file);
  if (!flags.is_json) {
    output().write(summarize_state(saved, flags.file));
    output().write("\n");
  }
  output().print("{}\n", indented_json(describe(saved)));
  return kExitOk;
}

// --- merge, rescale ---

SavableJobState read_job(const std::vector<std::string>& files) {
  std::vector<SavableDataLoaderState> ranks;
  for (const std::string& file : files) {
    SavedState saved = read_saved_state(file);
    if (auto* job = std::get_if<SavableJobState>(&saved)) {
      if (files.size() > 1) {
        throw Error(
            ErrorCode::kInvalidArgument,
            "this is the state of a whole job: give only this file, or the files of all ranks",
            {.path = file});
      }
      return std::move(*job);
    }
    ranks.push_back(std::move(std::get<SavableDataLoaderState>(saved)));
  }
  return merge_states(std::move(ranks));
}

struct MergeFlags {
  std::vector<std::string> files;
  std::string output;
};

int run_merge(const MergeFlags& flags) {
  const SavableJobState job = read_job(flags.files);
  write_job_state(flags.output, job);
  output().print("{}: {} ranks, certificate {}\n", printable(flags.output), job.ranks.size(),
                 to_hex(certificate_of(job).digest));
  return kExitOk;
}

struct RescaleFlags {
  std::vector<std::string> files;
  JobLayout layout;
  bool allow_uneven = false;
  std::string output;
};

// The flag --virtual-epoch-length with which each logical shard keeps its number of batches per
// epoch. Empty without virtual epochs.
std::string epoch_length_flag(const Config& config) {
  for (const Config* node = &config.at("pipeline"); node->is_object() && node->contains("inner");
       node = &node->at("inner")) {
    if (node->value("type", "") == "Epochize") {
      const auto length = node->value("length", std::int64_t{0});
      return fmt::format(" --virtual-epoch-length {}",
                         length * layout_of(config).logical_shards_per_rank());
    }
  }
  return "";
}

int run_rescale(const RescaleFlags& flags) {
  JobLayout layout = flags.layout;
  layout.uneven = flags.allow_uneven ? Uneven::kSpread : Uneven::kRefuse;
  const SavableJobState job = rescale(read_job(flags.files), layout);
  write_job_state(flags.output, job);
  const WorkerConfig config = layout_of(job.ranks.front().config);
  output().print("{}: {} ranks with {} workers, certificate {}\n", printable(flags.output),
                 layout.world_size, layout.num_workers, to_hex(certificate_of(job).digest));
  if (!is_state_of_loader(job.ranks.front())) {
    output().print("restore it into a {} with that layout\n", source_kind(job.ranks.front()));
    return kExitOk;
  }
  output().print(
      "restore it with --world-size {} --num-workers {}{}{}{}{}{}\n", layout.world_size,
      layout.num_workers,
      config.logical_shards ? fmt::format(" --logical-shards {}", *config.logical_shards) : "",
      config.logical_shards && config.division == Division::kEnergon ? " --division energon" : "",
      config.logical_shards && *config.logical_shards % layout.world_size != 0 ? " --uneven" : "",
      layout.micro_batch_size ? fmt::format(" --batch-size {}", *layout.micro_batch_size) : "",
      epoch_length_flag(job.ranks.front().config));
  return kExitOk;
}

// --- diff, verify ---

// The configurations of the leaves, in whichever stage they are.
const Config* find_leaves(const Config& node) {
  if (!node.is_structured()) {
    return nullptr;
  }
  if (node.is_object() && node.contains("leaves")) {
    return &node.at("leaves");
  }
  for (const auto& child : node) {
    if (const Config* found = find_leaves(child)) {
      return found;
    }
  }
  return nullptr;
}

/// Every difference as "path: first, expected second". Empty for equal states.
std::vector<std::string> state_differences(const SavedState& first, const SavedState& second) {
  std::vector<std::string> differences;
  if (first.index() != second.index()) {
    differences.emplace_back(first.index() == 0
                                 ? "the first is the state of a rank, the second of a job"
                                 : "the first is the state of a job, the second of a rank");
    return differences;
  }
  compare_configs(describe(first), describe(second), "state", differences);
  return differences;
}

/// How the data in a state's configuration differs from `data`: shards, counts, indexes.
std::vector<std::string> data_differences(const Config& config, const PipelineData& data) {
  const Config* const saved = find_leaves(config);
  Config current = Config::array();
  for (const PipelineLeaf& leaf : data.leaves) {
    current.push_back(leaf.dataset->config());
  }
  std::vector<std::string> differences;
  compare_configs(saved != nullptr ? *saved : Config::array(), current, "data", differences);
  return differences;
}

struct DiffFlags {
  std::string first;
  std::string second;
};

int run_diff(const DiffFlags& flags) {
  const std::vector<std::string> differences =
      state_differences(read_saved_state(flags.first), read_saved_state(flags.second));
  for (const std::string& difference : differences) {
    output().print("{}\n", difference);
  }
  return differences.empty() ? kExitOk : kExitFailure;
}

struct VerifyFlags {
  std::string file;
  std::string path;
  std::string split = "train";
};

int run_verify(const VerifyFlags& flags) {
  const SavedState saved = read_saved_state(flags.file);  // throws if anything is wrong with it
  const auto* job = std::get_if<SavableJobState>(&saved);
  const SavableDataLoaderState& rank =
      job != nullptr ? job->ranks.front() : std::get<SavableDataLoaderState>(saved);
  if (!flags.path.empty()) {
    const PipelineData data = open_pipeline_data(flags.path, {.split = flags.split});
    const std::vector<std::string> differences = data_differences(rank.config, data);
    if (!differences.empty()) {
      for (const std::string& difference : differences) {
        output().print("{}\n", difference);
      }
      return kExitFailure;
    }
  }
  output().print("{}: intact, {}{}\n", printable(flags.file),
                 job != nullptr ? fmt::format("a job of {} ranks", job->ranks.size())
                                : fmt::format("rank {} of {}", layout_of(rank.config).rank,
                                              layout_of(rank.config).world_size),
                 flags.path.empty() ? "" : ", matches the data");
  return kExitOk;
}

void add_show(CLI::App& checkpoint, Run& run) {
  CLI::App* const command =
      checkpoint.add_subcommand("show", "Show what a saved loader state contains");
  const auto flags = std::make_shared<ShowFlags>();
  command->add_option("FILE", flags->file, "State of a rank or a job")->required();
  command->add_flag("--json", flags->is_json, "Print only the JSON");
  on_run(*command, flags, run, run_show);
}

void add_verify(CLI::App& checkpoint, Run& run) {
  CLI::App* const command = checkpoint.add_subcommand(
      "verify", "Check that a state is intact, and that it matches the data");
  const auto flags = std::make_shared<VerifyFlags>();
  command->add_option("FILE", flags->file, "State of a rank or a job")->required();
  command->add_option("PATH", flags->path, "Data to compare the state with");
  command
      ->add_option("--split", flags->split, "Part of a prepared dataset, or split of a metadataset")
      ->capture_default_str();
  on_run(*command, flags, run, run_verify);
}

void add_diff(CLI::App& checkpoint, Run& run) {
  CLI::App* const command = checkpoint.add_subcommand(
      "diff", "List the differences between two states; exit code 1 if there are any");
  const auto flags = std::make_shared<DiffFlags>();
  command->add_option("A", flags->first, "State of a rank or a job")->required();
  command->add_option("B", flags->second, "State to compare with")->required();
  on_run(*command, flags, run, run_diff);
}

void add_merge(CLI::App& checkpoint, Run& run) {
  CLI::App* const command =
      checkpoint.add_subcommand("merge", "Merge the states of all ranks of a job into one file");
  const auto flags = std::make_shared<MergeFlags>();
  command->add_option("RANK_FILES", flags->files, "States of all ranks, in any order")->required();
  command->add_option("--output", flags->output, "Write the state of the job to this file")
      ->required();
  on_run(*command, flags, run, run_merge);
}

void add_rescale(CLI::App& checkpoint, Run& run) {
  CLI::App* const command = checkpoint.add_subcommand(
      "rescale", "Convert the state of a job to another number of ranks and workers");
  const auto flags = std::make_shared<RescaleFlags>();
  command->add_option("IN", flags->files, "State of a job, or states of all its ranks")->required();
  command->add_option("--world-size", flags->layout.world_size, "New number of ranks")
      ->required()
      ->check(at_least(1));
  command->add_option("--num-workers", flags->layout.num_workers, "New number of workers per rank")
      ->required()
      ->check(at_least(0));
  command
      ->add_option("--micro-batch", flags->layout.micro_batch_size,
                   "New micro batch size [default: unchanged]")
      ->check(at_least(1));
  command->add_flag("--uneven", flags->allow_uneven,
                    "Allow some ranks to get one logical shard more than others");
  command->add_option("--output", flags->output, "Write the state of the job to this file")
      ->required();
  on_run(*command, flags, run, run_rescale);
}

}  // namespace

void add_checkpoint(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand(
      "checkpoint", "Show, verify, compare, merge, rescale and import saved states");
  command->require_subcommand(1);
  add_show(*command, run);
  add_verify(*command, run);
  add_diff(*command, run);
  add_merge(*command, run);
  add_rescale(*command, run);
  add_checkpoint_import(*command, run);
}

}  // namespace energon::cli
