// A leaf dataset and its role in a pipeline: which samples, how often, with which labels.

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

#include "energon/order/order.h"
#include "energon/order/slice_order.h"
#include "energon/read/leaf_dataset.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "io/recipe/metadataset.h"
#include "io/recipe/shuffle_over_epochs.h"
#include "io/recipe/typed_samples.h"
#include "io/store/file_store.h"

namespace energon {

/// The length of the sample at `index` of a leaf, for example its number of tokens; not negative,
/// and always the same for an index. Called when orders are made, before any data is read, so take
/// it from a table.
using LengthOfSample = std::function<std::int64_t(std::int64_t index)>;

/// Order settings for training from the dataset itself (dataset.yaml). If unset, the pipeline's
/// options apply.
struct LeafSlicing {
  std::optional<ShuffleOverEpochs> shuffle_over_epochs = std::nullopt;
  /// An unset inner optional means the part of a tar that is in the share.
  std::optional<std::optional<std::int64_t>> max_samples_per_sequence = std::nullopt;
  std::optional<std::int64_t> parallel_slices = std::nullopt;
};

/// Makes a sample from its parts as stored. Runs in the worker.
using LoadFunction = std::function<Sample(Sample sample, CallContext& context)>;

struct PipelineLeaf {
  /// Whether cookers, if there are any, make the samples of this leaf.
  bool is_crude() const {
    return load ? loads_crude
                : typed_columns.empty() && (!typed || typed->type == SampleType::kCrude);
  }

  std::shared_ptr<const LeafDataset> dataset = nullptr;
  std::string name = {};  ///< the path, for messages
  /// Length by Energon's definition: samples in the split. For a subset, samples of the whole
  /// dataset; for a join, of the whole first dataset. Determines rotations and the weights of
  /// epochized blends.
  std::int64_t length = 0;
  std::optional<SampleRange> range = std::nullopt;  ///< unset means all samples
  double weight = 1;                                ///< in a weighted blend
  LengthOfSample length_of_sample = nullptr;        ///< in a blend by share; unset means 1 each
  double repetitions = 1;                           ///< in an epochized blend, per epoch
  ShuffleOverEpochs shuffle = {};                   ///< multiplies shuffle_over_epochs
  LeafSlicing slicing = {};                         ///< overrides the pipeline's options
  std::string subflavors = "{}";                    ///< a JSON object
  /// The typed samples to make from the decoded parts (wrappers/stages/typed_samples.h). If unset,
  /// samples keep their parts.
  std::optional<TypedSamples> typed = std::nullopt;
  /// For a join of typed samples, the type of each of its datasets. A joined sample has the fields
  /// of all of them; when read, it has a mapping with the parts of each. `typed` is then crude.
  std::vector<TypedSamples> typed_columns = {};
  /// A function of the program that makes the samples, instead of the decoder and `typed`
  /// (DataOptions::foreign); for a join, from a mapping with the parts of each dataset.
  LoadFunction load = nullptr;
  bool loads_crude = false;        ///< whether cookers, if there are any, take what `load` returns
  StoreFactory primary = nullptr;  ///< the dataset's own files; null means no access by name
  std::map<std::string, StoreFactory> aux = {};
};

/// The data of a pipeline. In training, the leaves are mixed; in validation, they are read one
/// after another.
struct PipelineData {
  PipelineData() = default;
  /// One whole dataset.
  template <std::derived_from<LeafDataset> Leaf>
  PipelineData(std::shared_ptr<const Leaf> dataset)  // NOLINT: a dataset is data
      : PipelineData(std::vector<std::shared_ptr<const LeafDataset>>{std::move(dataset)}) {}
  /// Several datasets, each read once per epoch.
  explicit PipelineData(std::vector<std::shared_ptr<const LeafDataset>> datasets);

  /// kWeighted means mixed by weight, with each leaf repeated forever. Otherwise, an epoch reads
  /// each leaf exactly its number of repetitions.
  Mixing mixing = Mixing::kSingle;
  std::vector<PipelineLeaf> leaves = {};
  std::vector<std::string> warnings = {};  ///< of the opened datasets; not errors
  /// Shards that were skipped when the datasets were opened (OpenOptions::broken_shards).
  std::vector<FailureReport> broken = {};
};

/// The sample ranges of an order, to check whether a reference or key in a saved state can belong
/// to it.
class LeafRanges {
 public:
  /// Takes the ranges from `order`. If the order does not report any, every sample may belong to
  /// it.
  explicit LeafRanges(const Order& order);

  bool may_have(std::int64_t leaf, std::int64_t index) const;
  /// The end of the range that contains sample `index`; index + 1 if no known range does.
  std::int64_t end_of_range(std::int64_t leaf, std::int64_t index) const;

 private:
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  const Range* find(std::int64_t leaf, std::int64_t index) const;

  // By leaf; ranges are sorted and disjoint. Leaves are few and numbered without gaps.
  std::optional<std::vector<std::vector<Range>>> ranges_;
};

}  // namespace energon
