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

/// The number of cores of the reference machine, and of threads of the floors.
inline constexpr int kMediaWorkers = 2;
inline constexpr int kMediaPrefetch = 2;  ///< finished batches queued per worker

/// A loader with kMediaWorkers workers. Throws as SavableDataLoader.
std::unique_ptr<SavableDataLoader> media_loader(PipelineFactory pipeline);

/// Waits until all workers are idle because they are as far ahead as allowed, or for 6 s on a busy
/// machine. Throws Error (kNotFound) if a worker has ended.
void wait_until_idle(const SavableDataLoader& loader);

/// An endless loader that stays alive between repetitions. For one thread.
class MediaRun {
 public:
  explicit MediaRun(PipelineFactory endless);

  /// Takes batches with at least `samples` samples in total, equally many from each worker, and
  /// returns samples/s. Batches made before the call do not count. Finally waits until the workers
  /// are idle, so that they do not slow the next measurement. Throws as SavableDataLoader::next().
  double samples_per_second(std::int64_t samples);

 private:
  std::int64_t take();

  const std::unique_ptr<SavableDataLoader> loader_;
};

/// The target of a loader.
struct MediaTarget {
  std::string name;
  double at_least = 0;
};

/// Adds the rates to `report`, each with its per-repetition ratio to the first, which is the floor,
/// and the median ratio of the second as a target.
void report_rates(const std::vector<Measurement>& rates, const std::string& unit,
                  const MediaTarget& target, Report& report);

}  // namespace energon::bench
