#include "tests/energon/autosave/auto_saver_fixture.h"

#include <algorithm>
#include <filesystem>

namespace energon::testing {

SavingJob::SavingJob(const LoaderFixture& fixture, WorkerConfig layout,
                     const AutoSaveOptions& options) {
  for (layout.rank = 0; layout.rank < layout.world_size; ++layout.rank) {
    ranks_.push_back(std::make_unique<AutoSavingLoader>(
        fixture.pipeline(), LoaderOptions{.worker_config = layout}, options));
  }
}

std::vector<Labels> SavingJob::take(int count) {
  std::vector<Labels> labels;
  for (const auto& rank : ranks_) {
    labels.emplace_back();
    for (int i = 0; i < count; ++i) {
      labels.back().push_back(label(*rank->next()));
    }
  }
  return labels;
}

std::vector<std::int64_t> SavingJob::steps() {
  std::vector<std::int64_t> steps;
  for (const auto& rank : ranks_) {
    steps.push_back(rank->saver().step());
  }
  return steps;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace energon::testing
