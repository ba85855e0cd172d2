#include "cli/loader_statistics.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/open_dataset.h"
#include "cli/output.h"
#include "wrappers/recipe/open_data.h"

namespace energon::cli {
namespace {

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

bool is_measured(const StageStatistics& stage) {
  return stage.samples > 0 || stage.busy.count() > 0 || stage.skipped > 0 || stage.failed > 0;
}

void append_stages(std::string& text, const WorkerStatistics& worker) {
  if (std::none_of(worker.stages.begin(), worker.stages.end(), is_measured)) {
    return;
  }
  text += fmt::format("  {:<20} {:>12} {:>12} {:>10} {:>10} {:>9} {:>8}\n", "stage", "samples",
                      "bytes", "busy", "for input", "skipped", "failed");
  for (const StageStatistics& stage : worker.stages) {
    text +=
        fmt::format("  {:<20} {:>12} {:>12} {:>8.3f} s {:>8.3f} s {:>9} {:>8}\n", stage.name,
                    stage.samples, stage.bytes > 0 ? human_bytes(stage.bytes) : "-",
                    seconds(stage.busy), seconds(stage.input_wait), stage.skipped, stage.failed);
  }
}

}  // namespace

std::string to_text(const LoaderStatistics& statistics) {
  std::string text = fmt::format("verdict: {}\n", statistics.verdict().text);
  for (std::size_t i = 0; i < statistics.workers.size(); ++i) {
    const WorkerStatistics& worker = statistics.workers[i];
    text += fmt::format(
        "{}: {} batches, busy {:.3f} s ({:.3f} s CPU), for consumer {:.3f} s, {} queued\n",
        statistics.num_workers > 0 ? fmt::format("worker {}", i) : "pipeline",
        with_separators(static_cast<std::int64_t>(worker.batches)), seconds(worker.busy),
        seconds(worker.cpu), seconds(worker.consumer_wait), worker.queue_depth);
    append_stages(text, worker);
  }
  if (const auto failures = describe_failures(statistics)) {
    text += *failures + "\n";
  }
  return text;
}

std::optional<std::string> describe_failures(const LoaderStatistics& statistics) {
  if (statistics.newest_reports.empty()) {
    return std::nullopt;
  }
  // Reports for a broken shard name one sample, but all of its samples are left out.
  std::uint64_t samples = 0;
  std::set<std::pair<std::string, std::string>> shards;
  std::set<std::pair<std::string, std::string>> broken;
  for (const FailureCount& count : statistics.failures) {
    if (count.is_shard_broken) {
      broken.emplace(count.dataset_path, count.shard_name);
    } else {
      samples += count.samples;
      shards.emplace(count.dataset_path, count.shard_name);
    }
  }
  std::string text;
  if (samples > 0 || broken.empty()) {
    text = fmt::format("{} in {}", plural(static_cast<std::int64_t>(samples), "sample"),
                       plural(static_cast<std::int64_t>(shards.size()), "shard"));
  }
  if (!broken.empty()) {
    text += fmt::format("{}{} with all samples", text.empty() ? "" : " and ",
                        plural(static_cast<std::int64_t>(broken.size()), "broken shard"));
  }
  return fmt::format("{} left out, the last one: {}", text,
                     to_string(statistics.newest_reports.back()));
}

// --- A rank without samples ---

namespace {

struct SampleCounts {
  std::int64_t all = 0;
  std::int64_t in_subsets = 0;
  std::int64_t usable = 0;  // in subsets and not excluded
};

SampleCounts count_samples(const PipelineData& data) {
  SampleCounts counts;
  for (const PipelineLeaf& leaf : data.leaves) {
    const SampleRange range = range_of(leaf);
    std::vector<std::int64_t> excluded;
    std::ranges::set_union(leaf.dataset->excluded(), leaf.dataset->excluded_in_place(),
                           std::back_inserter(excluded));
    const auto first = std::lower_bound(excluded.begin(), excluded.end(), range.begin);
    const auto last = std::lower_bound(excluded.begin(), excluded.end(), range.end);
    counts.all += leaf.dataset->sample_count();
    counts.in_subsets += range.end - range.begin;
    counts.usable += range.end - range.begin - (last - first);
  }
  return counts;
}

std::string reason(const PipelineData& data, const LoaderFlags& flags) {
  const SampleCounts counts = count_samples(data);
  if (counts.in_subsets == 0) {
    return fmt::format("the subsets of the metadataset select none of {}",
                       plural(counts.all, "sample"));
  }
  if (counts.usable == 0) {
    return counts.in_subsets == 1
               ? "the only sample is excluded"
               : fmt::format("all {} are excluded", plural(counts.in_subsets, "sample"));
  }
  const WorkerConfig& layout = flags.options.loader.worker_config;
  std::string text =
      fmt::format("{} for {}", plural(counts.usable, "sample"), plural(layout.world_size, "rank"));
  if (layout.num_workers > 1) {
    text += fmt::format(" of {} each", plural(layout.num_workers, "worker"));
  }
  const bool is_fraction =
      std::any_of(data.leaves.begin(), data.leaves.end(),
                  [](const PipelineLeaf& leaf) { return leaf.repetitions < 1; });
  return text +
         (is_fraction ? "; datasets with fewer than 1 repetition use only a part of theirs" : "");
}

}  // namespace

Error no_samples(const LoaderFlags& flags, const LoaderStatistics& statistics) {
  const WorkerConfig& layout = flags.options.loader.worker_config;
  if (statistics.consumer.lost_epochs > 0) {
    return Error(ErrorCode::kCorruptData,
                 fmt::format("rank {} of {} got no samples in an epoch: all of them failed and "
                             "were left out; --on-error fail shows the first failure",
                             layout.rank, layout.world_size),
                 {.path = flags.path});
  }
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("rank {} of {} has no samples: {}", layout.rank, layout.world_size,
                           reason(open_data(flags.path, data_options(flags)), flags)),
               {.path = flags.path});
}

}  // namespace energon::cli
