// Creates and runs the loaders of the benchmarks.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bench/support/data_set.h"
#include "bench/support/measure.h"
#include "energon/loader/savable_data_loader.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon::bench {

/// The settings that differ between compared loaders.
struct LoaderSetup {
  int num_workers = 0;
  std::int64_t batch_size = 1;
  std::int64_t shuffle_buffer_size = 0;
  std::int64_t parallel_slices = 16;
  std::optional<int> logical_shards = std::nullopt;
  std::optional<std::int64_t> max_samples_per_sequence = std::nullopt;

  /// Such as "loader, 2 workers, batch 64".
  std::string name() const;
};

enum class Length {
  kOneEpoch,  ///< next() returns nullopt after each pass over the data
  kEndless,
};

/// Makes a loader; all other settings are the library's defaults.
std::unique_ptr<SavableDataLoader> make_loader(PipelineData data, const LoaderSetup& setup,
                                               Length length);

/// Reads one epoch and checks every byte, and that each sample is delivered once. Returns the
/// order. Throws Error.
std::vector<std::int64_t> verify_epoch(const DataSet& data, const LoaderSetup& setup);
/// The same for opened data with the samples of `spec`.
std::vector<std::int64_t> verify_epoch(PipelineData data, const DataSetSpec& spec,
                                       const LoaderSetup& setup);

/// An endless loader that stays alive between repetitions.
class LoaderRun {
 public:
  LoaderRun(PipelineData data, const LoaderSetup& setup, Consumer consumer);

  /// Takes batches with at least `samples` samples in total and returns samples/s. Batches
  /// prefetched before the call do not count. Waits at the end, so that the workers can refill
  /// their queues and come to rest.
  double samples_per_second(std::int64_t samples);

 private:
  std::int64_t take();

  const LoaderSetup setup_;
  const Consumer consumer_;
  const std::unique_ptr<SavableDataLoader> loader_;
};

}  // namespace energon::bench
