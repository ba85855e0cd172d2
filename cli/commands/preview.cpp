// energon preview: the first samples of a split, of each of its datasets, as text.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/command.h"
#include "cli/job/at_least.h"
#include "cli/job/interrupt.h"
#include "cli/job/open_dataset.h"
#include "cli/job/path_option.h"
#include "cli/show/output.h"
#include "cli/show/part_preview.h"
#include "cli/show/recipe_summary.h"
#include "energon/sample/buffer_allocator.h"
#include "io/dataset/dataset_kind.h"
#include "io/error.h"
#include "io/recipe/recipe.h"

namespace energon::cli {
namespace {

struct PreviewFlags {
  std::string path;
  std::string split = "train";
  std::int64_t count = 3;
  std::optional<std::string> cache_dir;
};

void print_sample(const Sample& sample) {
  std::string sources;  // several if the sample is joined
  for (const SampleSource& source : sample.sources) {
    sources += fmt::format("{}{}, sample {}", sources.empty() ? "" : "; ",
                           printable(source.shard->shard_name), source.index_in_shard);
  }
  output().print("{}  ({})\n", printable(sample.keys.at(0)), sources);
  for (const auto& [name, value] : sample.fields) {
    output().print("{}\n", preview_part(name, std::get<SharedBytes>(value.base()).view));
  }
}

void print_samples(const PipelineLeaf& leaf, std::int64_t count) {
  const std::unique_ptr<LeafReader> reader = leaf.dataset->open_reader();
  const std::vector<std::int64_t>& excluded = leaf.dataset->excluded();
  const SampleRange range =
      leaf.range.value_or(SampleRange{.begin = 0, .end = leaf.dataset->sample_count()});
  HeapBufferPool memory;
  for (std::int64_t i = range.begin; i < range.end && count > 0; ++i) {
    if (interrupt_signal() != 0) {
      return;
    }
    if (std::binary_search(excluded.begin(), excluded.end(), i)) {
      continue;
    }
    std::vector<Sample> samples;
    reader->read({&i, 1}, memory, samples);
    print_sample(samples.at(0));
    --count;
  }
}

int run_preview(const PreviewFlags& flags) {
  const PipelineData data = open_pipeline_data(
      flags.path, {.split = flags.split, .open = {.cache_dir = flags.cache_dir}});
  const Recipe recipe = load_recipe(flags.path, flags.split);
  for (std::size_t i = 0; i < data.leaves.size() && interrupt_signal() == 0; ++i) {
    if (is_metadataset(flags.path)) {
      output().print("{}== {}\n", i == 0 ? "" : "\n", name_of(recipe.leaves.at(i)));
    }
    print_samples(data.leaves[i], flags.count);
  }
  return interrupt_signal() != 0 ? kExitSignal + interrupt_signal() : kExitOk;
}

}  // namespace

void add_preview(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand("preview", "Show the first samples as text");
  const auto flags = std::make_shared<PreviewFlags>();
  add_path(*command, flags->path, PathCount::kSeveral);
  command
      ->add_option("--split-part,--split-parts,--split", flags->split,
                   "Part of a prepared dataset, or split of a metadataset")
      ->capture_default_str();
  command
      ->add_option("--count", flags->count,
                   "Samples to show; of a metadataset, of each of its datasets")
      ->capture_default_str()
      ->check(at_least(1));
  command->add_option("--cache-dir", flags->cache_dir,
                      "Where indices and expanded shards go that cannot be kept beside the data");
  command->callback([flags, &run] { run = [flags] { return run_preview(*flags); }; });
}

}  // namespace energon::cli
