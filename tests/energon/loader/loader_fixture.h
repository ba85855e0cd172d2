// Verbs for tests of loaders: a dataset of numbered samples, loaders over it, and their results.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "energon/loader/savable_data_loader.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::testing {

/// Counts descriptors, threads and children of this process, to check that they are released.
struct ProcessCounts {
  static ProcessCounts now();
  /// Returns the numbers once they are `expected`, or after a time that only a leak exceeds: a
  /// joined thread may still be visible for a moment.
  static ProcessCounts settled(const ProcessCounts& expected);

  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::size_t children = 0;             ///< zombies too
  std::size_t shared_memory_names = 0;  ///< of ours

  bool operator==(const ProcessCounts&) const = default;
};

std::ostream& operator<<(std::ostream& out, const ProcessCounts& counts);

/// The identity of a batch: its restore key and the digest of its content.
std::string label(const Sample& batch);

inline constexpr const char* kEpochEnd = "end of epoch";

using Labels = std::vector<std::string>;

/// The labels of the next `count` results of next(), ends of epochs included.
Labels take(SavableDataLoader& loader, std::size_t count);

/// `count` of `labels`, beginning with number `from`.
Labels tail(const Labels& labels, std::size_t from, std::size_t count);

/// Only the checkpoint that each worker starts with.
LoaderOptions never_checkpoint();

/// A dataset and the way to make loaders over it.
class LoaderFixture {
 public:
  explicit LoaderFixture(TrainOptions options, std::vector<std::int64_t> counts = kFx55,
                         std::size_t payload_bytes = 0);

  std::unique_ptr<SavableDataLoader> loader(int num_workers, LoaderOptions options = {}) const;
  const PipelineFactory& pipeline() const { return pipeline_; }
  const std::shared_ptr<const Webdataset>& dataset() const { return dataset_; }
  const TempDir& folder() const { return folder_; }

 private:
  TempDir folder_;
  std::shared_ptr<const Webdataset> dataset_;
  PipelineFactory pipeline_;
};

/// A fresh loader, restored.
std::unique_ptr<SavableDataLoader> resumed(const LoaderFixture& fixture, int workers,
                                           const SavableDataLoaderState& state,
                                           const LoaderOptions& options = {});

}  // namespace energon::testing
