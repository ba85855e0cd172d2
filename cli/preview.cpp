// energon preview: the first samples of a split, as text.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/at_least.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/open_dataset.h"
#include "cli/output.h"
#include "cli/part_preview.h"
#include "energon/buffer_allocator.h"
#include "energon/webdataset/webdataset.h"
#include "io/error.h"

namespace energon::cli {
namespace {

struct PreviewFlags {
  std::string path;
  std::string split = "train";
  std::int64_t count = 3;
  std::optional<std::string> cache_dir;
};

void print_sample(const Sample& sample) {
  const SampleSource& source = source_of(sample, 0);
  output().print("{}  ({}, sample {})\n", printable(sample.keys.at(0)),
                 printable(source.shard->shard_name), source.index_in_shard);
  for (const auto& [name, value] : sample.fields) {
    output().print("{}\n", preview_part(name, std::get<SharedBytes>(value.base()).view));
  }
}

int run_preview(const PreviewFlags& flags) {
  const auto dataset =
      std::make_shared<const Webdataset>(open_shards(flags.path, flags.split, flags.cache_dir));
  WebdatasetReader reader(dataset);
  HeapBufferPool memory;
  const std::vector<std::int64_t>& excluded = dataset->excluded();
  std::int64_t shown = 0;
  for (std::int64_t i = 0; i < dataset->sample_count() && shown < flags.count; ++i) {
    if (interrupt_signal() != 0) {
      return kExitSignal + interrupt_signal();
    }
    if (std::binary_search(excluded.begin(), excluded.end(), i)) {
      continue;
    }
    std::vector<Sample> samples;
    reader.read({&i, 1}, memory, samples);
    print_sample(samples.at(0));
    ++shown;
  }
  return kExitOk;
}

}  // namespace

void add_preview(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand("preview", "Show the first samples as text");
  const auto flags = std::make_shared<PreviewFlags>();
  command->add_option("PATH", flags->path, "Dataset, folder of tars, tar, or brace pattern")
      ->required();
  command
      ->add_option("--split-part,--split-parts,--split", flags->split, "Part of a prepared dataset")
      ->capture_default_str();
  command->add_option("--count", flags->count, "Samples to show")
      ->capture_default_str()
      ->check(at_least(1));
  command->add_option("--cache-dir", flags->cache_dir,
                      "Where indices and expanded shards go that cannot be kept beside the data");
  command->callback([flags, &run] { run = [flags] { return run_preview(*flags); }; });
}

}  // namespace energon::cli
