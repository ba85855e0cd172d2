// Loaders as the benchmarks run them.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bench/support/data_set.h"
#include "energon/loader/savable_data_loader.h"

namespace energon::bench {

/// What differs between the loaders that are compared.
struct LoaderSetup {
  int num_workers = 0;
  std::int64_t batch_size = 1;
  std::int64_t shuffle_buffer_size = 0;

  /// Such as "loader, 2 workers, batch 64".
  std::string name() const;
};

enum class Length {
  kOneEpoch,  ///< next() returns the end after each passage over the data
  kEndless,
};

/// All other settings are the defaults of the library.
std::unique_ptr<SavableDataLoader> make_loader(std::shared_ptr<const Webdataset> dataset,
                                               const LoaderSetup& setup, Length length);

/// Reads one epoch, compares every byte, and that each sample comes once. Returns the order. Throws
/// Error.
std::vector<std::int64_t> verify_epoch(const DataSet& data, const LoaderSetup& setup);

/// What the consumer does with the batches it gets.
enum class Consumer {
  kDrops,    ///< nothing: the bytes are there to be read, in shared memory
  kTouches,  ///< reads one word of each cache line of each part
};

/// An endless loader that is kept running between repetitions.
class LoaderRun {
 public:
  LoaderRun(std::shared_ptr<const Webdataset> dataset, const LoaderSetup& setup, Consumer consumer);

  /// Takes batches of at least `samples` samples and returns samples/s. What was prefetched before
  /// the call is not counted, and the workers rest before it returns.
  double samples_per_second(std::int64_t samples);

 private:
  std::int64_t take();

  const LoaderSetup setup_;
  const Consumer consumer_;
  const std::unique_ptr<SavableDataLoader> loader_;
};

}  // namespace energon::bench
