// energon exclude: adds samples to an exclusion, or removes them (energon/read/exclude_samples.h).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "energon/read/exclude_samples.h"

namespace energon::cli {
namespace {

struct ExcludeFlags {
  std::string path;
  std::vector<std::string> names;
  ExcludeSamplesOptions options;
  bool is_json = false;
};

using OrderedJson = nlohmann::ordered_json;

OrderedJson sample_json(const ExcludedSample& sample) {
  OrderedJson json = {{"dataset", sample.dataset_path}, {"shard", sample.shard_name}};
  if (sample.index) {
    json["index"] = *sample.index;
  }
  if (sample.key) {
    json["key"] = *sample.key;
  }
  json["changed"] = sample.is_changed;
  return json;
}

std::string target_of(const ExcludeFlags& flags) {
  return flags.options.is_split ? "the split file" : printable(flags.options.output);
}

void print_text(const std::vector<ExcludedSample>& samples, const ExcludeFlags& flags) {
  const bool is_remove = flags.options.is_remove;
  std::int64_t changed = 0;
  for (const ExcludedSample& sample : samples) {
    changed += sample.is_changed ? 1 : 0;
    const char* const what = sample.is_changed ? (is_remove ? "removed" : "added")
                                               : (is_remove ? "not listed" : "listed before");
    output().print("{}{}: {}\n", printable(sample.shard_name),
                   sample.key ? "/" + printable(*sample.key) : " (all samples)", what);
  }
  output().print("{} of {} {} {}\n", with_separators(changed),
                 plural(static_cast<std::int64_t>(samples.size()), "entry", "entries"),
                 is_remove ? "removed from" : "added to", target_of(flags));
  if (changed == 0) {
    return;
  }
  output().write(
      flags.options.is_split
          ? "This changes the order of all samples: no saved state fits the dataset any more, and "
            "joins with it must be prepared again.\n"
          : "All other samples keep their places: a job goes on from its state with --exclude "
            "(exclude_files).\n");
}

int run_exclude(const ExcludeFlags& flags) {
  ExcludeSamplesOptions options = flags.options;
  options.check_cancelled = check_interrupt;
  if (options.is_remove && !options.is_split && options.output.empty()) {
    throw UsageError{"--remove needs --output or --split"};
  }
  const std::vector<ExcludedSample> samples = exclude_samples(flags.path, flags.names, options);
  if (flags.is_json) {
    OrderedJson json = OrderedJson::array();
    for (const ExcludedSample& sample : samples) {
      json.push_back(sample_json(sample));
    }
    output().print("{}\n", indented_json(json));
  } else if (options.output.empty() && !options.is_split) {
    for (const ExcludedSample& sample : samples) {
      output().write(sample.line);
    }
  } else {
    print_text(samples, flags);
  }
  return kExitOk;
}

}  // namespace

void add_exclude(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand(
      "exclude", "Add samples or shards to a quarantine file, which runs take with --exclude");
  const auto flags = std::make_shared<ExcludeFlags>();
  add_path(*command, flags->path, PathCount::kOne);
  command
      ->add_option("KEY", flags->names,
                   "Key of a sample, SHARD/KEY, or the name of a shard; each must exist")
      ->required();
  CLI::Option* const output =
      command->add_option("--output", flags->options.output,
                          "Quarantine file to add to; it need not exist. Default: print the lines");
  command
      ->add_flag("--split", flags->options.is_split,
                 "Add to `exclude` of the split file of the dataset instead, which changes the "
                 "order of all samples, as in Energon")
      ->excludes(output);
  command->add_flag("--remove", flags->options.is_remove, "Remove the samples from the file");
  command->add_option("--cause", flags->options.cause, "Text for people in each line");
  add_cache_dir(*command, flags->options.cache_dir, ShardUse::kRead);
  command->add_flag("--json", flags->is_json, "Print JSON");
  on_run(*command, flags, run, run_exclude);
}

}  // namespace energon::cli
