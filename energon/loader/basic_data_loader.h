// A loader without a saved position: for evaluation.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "energon/loader/loader_options.h"
#include "energon/pipeline.h"
#include "energon/sample.h"

namespace energon {

class RankStream;
class SampleRestorer;

/// One passage over the data of a BasicDataLoader, epoch after epoch. Move-only; for one thread at
/// a time; independent of the loader and of other passages.
class BatchIteration {
 public:
  BatchIteration(PipelineFactory make_pipeline, const LoaderOptions& options);
  BatchIteration(BatchIteration&&) noexcept;
  BatchIteration& operator=(BatchIteration&&) noexcept;
  ~BatchIteration();

  /// As SavableDataLoader::next().
  std::optional<Sample> next();

 private:
  std::unique_ptr<RankStream> stream_;
};

/// Yields the batches that a SavableDataLoader yields. Several iterations may run at once, each
/// with its own workers.
class BasicDataLoader {
 public:
  /// Throws Error (kInvalidArgument).
  explicit BasicDataLoader(PipelineFactory make_pipeline, const LoaderOptions& options = {});
  ~BasicDataLoader();
  BasicDataLoader(const BasicDataLoader&) = delete;
  BasicDataLoader& operator=(const BasicDataLoader&) = delete;

  /// From the start of the data. With workers, forks a fork server: see SavableDataLoader.
  BatchIteration iterate() const;

  /// As SavableDataLoader.
  Sample restore_sample(const RestoreKey& key);
  std::optional<std::int64_t> size() const;
  Config config() const;

 private:
  const PipelineFactory make_pipeline_;
  const LoaderOptions options_;
  const std::unique_ptr<SampleRestorer> restorer_;
};

}  // namespace energon
