// Adapters over real loaders and over sources of numbers, and verbs for their batches.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "energon/distributed/comm.h"
#include "energon/loader/savable_data_loader.h"
#include "protocols/accelerate/adapter.h"
#include "protocols/accelerate/dispatch_adapter.h"
#include "protocols/accelerate/loader_registry.h"
#include "protocols/accelerate/shard_adapter.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/temp_dir.h"

namespace energon::testing {

using Texts = std::vector<std::string>;

/// The Comm of a job with one process.
SingleProcessComm& alone();

/// Kinds of adapters. kSkip is a SkipFirst that skips nothing, over a kShard.
enum class AdapterKind { kShard, kDispatch, kSkip };
inline constexpr AdapterKind kAdapterKinds[] = {AdapterKind::kShard, AdapterKind::kDispatch,
                                                AdapterKind::kSkip};

/// An adapter of a job with one process.
std::shared_ptr<Adapter> adapt(AdapterKind kind, std::shared_ptr<BatchSource> source);
/// The same, on `registry` while it is iterated.
std::shared_ptr<RegisteredLoader> adapt(AdapterKind kind, std::shared_ptr<BatchSource> source,
                                        LoaderRegistry& registry);

/// The rest of the epoch, or the next `limit` batches: the keys of each, joined by commas.
Texts keys(BatchSource& source, std::size_t limit = SIZE_MAX);

/// All strings from index `begin` on.
Texts from(const Texts& all, std::size_t begin);

/// The parts of `text` between the separators.
Texts split(const std::string& text, char separator);

/// Loaders over 64 samples: 16 batches of 4 in an epoch.
class RealLoaders {
 public:
  std::shared_ptr<SavableDataLoader> loader(int workers, int rank = 0, int ranks = 1,
                                            std::int64_t seed_offset = 0,
                                            std::int64_t checkpoint_every = 1) const;
  /// A loader whose states depend only on the delivered batches: its workers store only the state
  /// of their start.
  std::shared_ptr<SavableDataLoader> sparse_loader(int workers) const;

 private:
  TempDir folder_;
  std::shared_ptr<const Webdataset> dataset_ = numbered_dataset(folder_, {16, 16, 16, 16});
};

/// Options of ranks that end together.
enum class CommonEnd { kRepeat, kDrop };

/// Loaders over twelve logical shards of 10 or 11 samples: with batches of 2, three ranks have 24,
/// 21 and 20 batches in an epoch.
class UnevenLoaders {
 public:
  static constexpr std::int64_t kSamples = 125;

  std::shared_ptr<SavableDataLoader> loader(int rank, int ranks, std::int64_t batch_size = 2,
                                            int workers = 0) const;
  /// An adapter that ends with the other ranks, over the loader of a rank of `comm`.
  std::shared_ptr<ShardAdapter> ending(Comm& comm, CommonEnd end) const;
  std::shared_ptr<DispatchAdapter> dispatching(Comm& comm, int workers = 0) const;

 private:
  TempDir folder_;
  std::shared_ptr<const Webdataset> dataset_ =
      numbered_dataset(folder_, {11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 4});
};

}  // namespace energon::testing
