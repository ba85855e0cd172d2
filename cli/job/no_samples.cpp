#include "cli/job/no_samples.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/job/loader_from_flags.h"
#include "cli/show/output.h"
#include "wrappers/recipe/open_data.h"

namespace energon::cli {
namespace {

struct SampleCounts {
  std::int64_t all = 0;
  std::int64_t in_subsets = 0;
  std::int64_t usable = 0;  // in subsets and not excluded
};

SampleCounts count_samples(const PipelineData& data) {
  SampleCounts counts;
  for (const PipelineLeaf& leaf : data.leaves) {
    const std::int64_t all = leaf.dataset->sample_count();
    const SampleRange range = leaf.range.value_or(SampleRange{.begin = 0, .end = all});
    const std::vector<std::int64_t>& excluded = leaf.dataset->excluded();
    const auto first = std::lower_bound(excluded.begin(), excluded.end(), range.begin);
    const auto last = std::lower_bound(excluded.begin(), excluded.end(), range.end);
    counts.all += all;
    counts.in_subsets += range.end - range.begin;
    counts.usable += range.end - range.begin - (last - first);
  }
  return counts;
}

std::string reason(const PipelineData& data, const LoaderFlags& flags) {
  const SampleCounts counts = count_samples(data);
  if (counts.in_subsets == 0) {
    return fmt::format("the subsets of the metadataset leave none of {}",
                       plural(counts.all, "sample"));
  }
  if (counts.usable == 0) {
    return counts.in_subsets == 1
               ? "the only sample is excluded"
               : fmt::format("all {} are excluded", plural(counts.in_subsets, "sample"));
  }
  std::string text =
      fmt::format("{} for {}", plural(counts.usable, "sample"), plural(flags.world_size, "rank"));
  if (flags.num_workers > 1) {
    text += fmt::format(" of {} each", plural(flags.num_workers, "worker"));
  }
  const bool is_fraction =
      std::any_of(data.leaves.begin(), data.leaves.end(),
                  [](const PipelineLeaf& leaf) { return leaf.repetitions < 1; });
  return text + (is_fraction ? ", of which the repetitions take only a part" : "");
}

}  // namespace

Error no_samples(const LoaderFlags& flags, const LoaderStatistics& statistics) {
  if (statistics.consumer.lost_epochs > 0) {
    return Error(ErrorCode::kCorruptData,
                 fmt::format("nothing in an epoch of rank {} of {} could be used: all of it failed "
                             "and was left out; --on-error fail shows the first failure",
                             flags.rank, flags.world_size),
                 {.path = flags.path});
  }
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("rank {} of {} has no samples: {}", flags.rank, flags.world_size,
                           reason(open_data(flags.path, data_options(flags)), flags)),
               {.path = flags.path});
}

}  // namespace energon::cli
