// Measures loaders that decode.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/measure.h"
#include "bench/support/report.h"
#include "energon/loader/savable_data_loader.h"

namespace energon::bench {

/// As many as the machine of the targets has cores, and the floors have threads.
inline constexpr int kMediaWorkers = 2;
inline constexpr int kMediaPrefetch = 2;  ///< finished batches in front of each worker

/// A loader with kMediaWorkers workers. Throws as SavableDataLoader.
std::unique_ptr<SavableDataLoader> media_loader(PipelineFactory pipeline);

/// Returns when no worker works any more, because all are as far ahead as they may be; or after 6
/// s, on a machine that is busy otherwise. Throws Error (kNotFound) if a worker has ended.
void wait_until_idle(const SavableDataLoader& loader);

/// An endless loader that stays alive between repetitions. For one thread.
class MediaRun {
 public:
  explicit MediaRun(PipelineFactory endless);

  /// Takes batches with at least `samples` samples in total, as many of each worker, and returns
  /// samples/s. What was made before the call does not count. At the end waits until the workers
  /// are at rest, so that they take nothing from what is measured next. Throws as
  /// SavableDataLoader::next().
  double samples_per_second(std::int64_t samples);

 private:
  std::int64_t take();

  const std::unique_ptr<SavableDataLoader> loader_;
};

/// What a loader is compared with.
struct MediaTarget {
  std::string name;
  double at_least = 0;
};

/// Adds the rates to `report`, each with its ratios to the first, which is the floor, repetition by
/// repetition; and the median ratio of the second as a target.
void report_rates(const std::vector<Measurement>& rates, const std::string& unit,
                  const MediaTarget& target, Report& report);

}  // namespace energon::bench
