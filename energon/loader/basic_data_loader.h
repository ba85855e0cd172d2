// A loader without a saved position: for evaluation.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/statistics.h"

namespace energon {

class RankLoader;
class SampleRestorer;
class LatestIteration;
class EpochSizes;

/// One iteration over the data of a BasicDataLoader, epoch after epoch. Move-only. For one thread
/// at a time. Independent of the loader and of other iterations.
class BatchIteration {
 public:
  /// `latest`, if not null, receives the statistics of this iteration.
  BatchIteration(PipelineFactory make_pipeline, const LoaderOptions& options,
                 std::shared_ptr<LatestIteration> latest = nullptr);
  BatchIteration(BatchIteration&&) noexcept;
  BatchIteration& operator=(BatchIteration&&) noexcept;
  ~BatchIteration();

  /// Same as SavableDataLoader::next().
  std::optional<Sample> next();
  /// Same as SavableDataLoader::stats(), for this iteration.
  LoaderStatistics stats() const;
  /// Same as SavableDataLoader::close(). Requires: not moved from.
  void close();

 private:
  void end();

  std::unique_ptr<RankLoader> loader_;
  std::shared_ptr<LatestIteration> latest_;
};

/// Yields the same batches as a SavableDataLoader. Several iterations may run at once, each with
/// its own workers.
class BasicDataLoader {
 public:
  /// Throws Error (kInvalidArgument).
  explicit BasicDataLoader(PipelineFactory make_pipeline, const LoaderOptions& options = {});
  ~BasicDataLoader();
  BasicDataLoader(const BasicDataLoader&) = delete;
  BasicDataLoader& operator=(const BasicDataLoader&) = delete;

  /// Starts an iteration at the start of the data. With workers, forks a fork server: see
  /// SavableDataLoader.
  BatchIteration iterate() const;

  /// The next three are the same as in SavableDataLoader.
  Sample restore_sample(const RestoreKey& key);
  std::optional<std::int64_t> size() const;
  Config config() const;
  const LoaderOptions& options() const { return options_; }
  /// Statistics of the newest iteration, even after it is destroyed. All zero before the first one.
  /// Call it in the thread that drives that iteration.
  LoaderStatistics stats() const;

 private:
  const PipelineFactory make_pipeline_;
  const LoaderOptions options_;
  const std::unique_ptr<SampleRestorer> restorer_;
  const std::unique_ptr<EpochSizes> sizes_;
  const std::shared_ptr<LatestIteration> latest_;
};

}  // namespace energon
