// Jobs whose ranks save automatically.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "energon/autosave/auto_saver.h"
#include "tests/energon/loader/loader_fixture.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::testing {

inline const TrainOptions kSavedOptions = {.batch_size = 2, .shuffle_buffer_size = 12};

/// The ranks of a job with their savers. They run one after the other, so none can wait for
/// another.
class SavingJob {
 public:
  SavingJob(const LoaderFixture& fixture, WorkerConfig layout, const AutoSaveOptions& options);

  AutoSavingLoader& rank(std::size_t number) { return *ranks_[number]; }
  const AutoSaver& saver() { return rank(0).saver(); }

  /// The next `count` batches of each rank, rank after rank.
  std::vector<Labels> take(int count);
  /// The step of each rank.
  std::vector<std::int64_t> steps();

 private:
  std::vector<std::unique_ptr<AutoSavingLoader>> ranks_;
};

/// The names of the entries of `folder`, sorted.
std::vector<std::string> names_in(const std::string& folder);

}  // namespace energon::testing
