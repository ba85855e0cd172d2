// The data and loaders of the guard: batches of 64 small samples from 16 tars in turn.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/data_set.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/read/webdataset.h"
#include "energon/stage/dataset.h"

namespace energon::testing {

inline constexpr std::int64_t kBatchSamples = 64;
inline constexpr int kTars = 16;

/// The parts of a sample.
enum class Parts {
  kOne,    ///< 300 B
  kTwo,    ///< 600 and 200 B
  kLarge,  ///< 8 KiB, so that a needless copy shows
};

/// Makes a prepared dataset of 16 tars below `folder` and opens it.
std::shared_ptr<const Webdataset> small_samples(const std::string& folder, Parts parts);

/// An endless pipeline of batches over the dataset.
PipelineFactory batches_of(std::shared_ptr<const Webdataset> dataset,
                           std::int64_t shuffle_buffer = 0,
                           std::int64_t batch_size = kBatchSamples);

/// A loader without workers, which has delivered each sample once.
std::unique_ptr<SavableDataLoader> warm_loader(std::shared_ptr<const Webdataset> dataset,
                                               std::int64_t shuffle_buffer = 0);

/// Delivers `count` batches. Throws Error (kInternal) if one is incomplete.
void take_batches(SavableDataLoader& loader, int count);

}  // namespace energon::testing
