// A leaf dataset with its part in a pipeline: how much of it, how often, with which labels.

#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "energon/order/slice_order.h"
#include "energon/read/leaf_dataset.h"
#include "io/recipe/metadataset.h"
#include "io/recipe/subset.h"
#include "io/store/store_pool.h"

namespace energon {

/// What the sample at `index` of a leaf counts, its tokens for instance; not negative, and always
/// the same. Called where orders are made, before anything is read: from a table, not from the
/// data.
using LengthOfSample = std::function<std::int64_t(std::int64_t index)>;

/// What a dataset says itself of its order in training (dataset.yaml); absent: the pipeline's
/// options hold.
struct LeafSlicing {
  std::optional<ShuffleOverEpochs> shuffle_over_epochs = std::nullopt;
  /// Inside: absent: a tar's part of the share.
  std::optional<std::optional<std::int64_t>> max_samples_per_sequence = std::nullopt;
  std::optional<std::int64_t> parallel_slices = std::nullopt;
};

struct PipelineLeaf {
  std::shared_ptr<const LeafDataset> dataset = nullptr;
  std::string name = {};  ///< for people: the path
  /// What Energon counts as its length: samples of the split, of a subset and a join those of the
  /// whole (first) dataset. Decides rotations and weights of epochized blends.
  std::int64_t length = 0;
  std::optional<SampleRange> range = std::nullopt;  ///< absent: all samples
  double weight = 1;                                ///< in a weighted blend
  LengthOfSample length_of_sample = nullptr;        ///< in a blend by share; absent: 1 each
  double repetitions = 1;                           ///< in an epochized blend, per epoch
  ShuffleMultiplier shuffle = {};                   ///< of the pipeline's shuffle_over_epochs
  LeafSlicing slicing = {};                         ///< wins over the pipeline's options
  std::string subflavors = "{}";                    ///< a JSON object
  StoreFactory primary = nullptr;  ///< files of the dataset itself; absent: it has no names
  std::map<std::string, StoreFactory> aux = {};
};

/// What a pipeline reads. In training the leaves are mixed, in validation they follow each other.
struct PipelineData {
  PipelineData() = default;
  /// The whole of one dataset.
  template <std::derived_from<LeafDataset> Leaf>
  PipelineData(std::shared_ptr<const Leaf> dataset)  // NOLINT: a dataset is data
      : PipelineData(std::vector<std::shared_ptr<const LeafDataset>>{std::move(dataset)}) {}
  /// Several datasets, each once an epoch.
  explicit PipelineData(std::vector<std::shared_ptr<const LeafDataset>> datasets);

  /// kWeighted: mixed by weight, each without end. Else each its number of repetitions in an epoch,
  /// exactly.
  Mixing mixing = Mixing::kSingle;
  std::vector<PipelineLeaf> leaves = {};
  std::vector<std::string> warnings = {};  ///< of the opened datasets; harmless
  /// Shards that were left out when the datasets were opened (OpenOptions::broken_shards).
  std::vector<FailureReport> broken = {};
};

}  // namespace energon
