#include "wrappers/recipe/sample_order.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "energon/order/order.h"
#include "energon/order/sharder.h"
#include "energon/order/slice_order.h"
#include "io/recipe/metadataset.h"
#include "wrappers/orders/blend.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/orders/repeat.h"
#include "wrappers/orders/shuffle_buffer.h"

namespace energon {

// --- PassLength ---

namespace {

// After this many whole passes without a result, no usable sample is expected: the probability that
// random draws missed a given sample in all of them is below 1e-10.
constexpr double kUselessPasses = 25;

/// How many samples make one whole pass over the leaves of an order without end.
///
/// A pipeline that can use none of its samples would run forever in an endless epoch. The length of
/// a pass determines after how many samples in a row without a result the pipeline must give up.
class PassLength {
 public:
  /// Adds `order`, the order of `leaf` before repeating.
  void add(const Order& order, const PipelineLeaf& leaf, const ShuffleOverEpochs& shuffle,
           Mixing mixing);

  /// How many samples in a row may be skipped (StageOptions::most_left_out) if a shuffle buffer of
  /// this size follows; 0, no bound, if the number overflows.
  std::int64_t most_left_out(std::int64_t shuffle_buffer_size) const;

 private:
  // Leaves with repetitions.
  double sum_ = 0;     // samples of one epoch
  double rounds_ = 1;  // epochs until a leaf repeated less than once was read whole
  // Leaves with weights.
  double weights_ = 0;  // their sum
  double longest_ = 0;  // the largest number of samples divided by the weight of its leaf
};

void PassLength::add(const Order& order, const PipelineLeaf& leaf, const ShuffleOverEpochs& shuffle,
                     Mixing mixing) {
  auto samples = static_cast<double>(order.samples_per_pass().value_or(0));
  if (samples == 0) {
    return;
  }
  if (shuffle.mode == ShuffleOverEpochs::Mode::kEpochs) {
    samples *= static_cast<double>(shuffle.epochs);
  }
  if (mixing == Mixing::kWeighted) {
    weights_ += leaf.weight;
    longest_ = std::max(longest_, samples / leaf.weight);
  } else {
    sum_ += samples * leaf.repetitions;
    rounds_ = std::max(rounds_, 1 / leaf.repetitions);
  }
}

std::int64_t PassLength::most_left_out(std::int64_t shuffle_buffer_size) const {
  const double pass = sum_ * rounds_ + longest_ * weights_;
  const double samples = kUselessPasses * (pass + static_cast<double>(shuffle_buffer_size) + 1);
  return samples < 1e15 ? static_cast<std::int64_t>(samples) : 0;
}

}  // namespace

// --- Orders ---

namespace {

using Mode = ShuffleOverEpochs::Mode;

ShuffleOverEpochs multiplied(const ShuffleOverEpochs& shuffle,
                             const ShuffleOverEpochs& multiplier) {
  // SliceOrder refuses this many epochs.
  return multiply(shuffle, multiplier)
      .value_or(ShuffleOverEpochs{.epochs = std::numeric_limits<std::int64_t>::max()});
}

/// Makes the orders of the leaves of one logical shard, each with its rotation in Energon, which
/// assigns the remainders of consecutive datasets to different logical shards.
class LeafOrders {
 public:
  LeafOrders(const PipelineData& data, const PipelineContext& context)
      : data_(data), context_(context) {}

  std::unique_ptr<Order> next(SliceOrderOptions options,
                              std::optional<std::int64_t> max_samples_per_sequence = std::nullopt) {
    const PipelineLeaf& leaf = data_.leaves[leaf_];
    SharderInput input{.shard_counts = leaf.dataset->shard_counts(),
                       .shard_ends = leaf.dataset->shard_ends(),
                       .logical_shard_count = context_.config.logical_shard_count(),
                       .division = context_.config.effective_division(),
                       .rotation_offset = samples_before_ % context_.config.logical_shard_count(),
                       .max_samples_per_sequence = max_samples_per_sequence};
    if (leaf.range) {
      input.begin = leaf.range->begin;
      input.end = leaf.range->end;
    }
    options.seed = context_.seed();
    options.leaf = static_cast<std::uint32_t>(leaf_++);
    samples_before_ += leaf.length;
    return std::make_unique<SliceOrder>(slice_bounds(input, context_.logical_shard()),
                                        leaf.dataset->excluded(), options);
  }

 private:
  const PipelineData& data_;
  const PipelineContext& context_;
  std::size_t leaf_ = 0;
  std::int64_t samples_before_ = 0;
};

SliceOrderOptions slice_options_of(const PipelineLeaf& leaf, const TrainOptions& options) {
  const LeafSlicing& own = leaf.slicing;
  const auto shuffle =
      own.shuffle_over_epochs.value_or(multiplied(options.shuffle_over_epochs, leaf.shuffle));
  // A leaf that its metadataset keeps in order is read slice by slice.
  const bool is_in_order = own.shuffle_over_epochs
                               ? shuffle.mode == Mode::kNone
                               : leaf.shuffle.mode == ShuffleOverEpochs::Mode::kNone;
  const std::int64_t parallel = own.parallel_slices.value_or(options.parallel_slices);
  return {.shuffle_over_epochs = shuffle, .parallel_slices = is_in_order ? 1 : parallel};
}

std::unique_ptr<Order> repeated(std::unique_ptr<Order> order, std::optional<double> repetitions) {
  return std::make_unique<Repeat>(std::move(order), repetitions);
}

template <class BlendOrder>
SampleOrder with_replacement(std::unique_ptr<BlendOrder> blend) {
  Replacement* const replacement = blend.get();
  return {.order = std::move(blend), .replacement = replacement};
}

SampleOrder blend(std::vector<std::unique_ptr<Order>> orders, const std::vector<double>& weights,
                  const PipelineData& data, const TrainOptions& options,
                  const PipelineContext& context) {
  if (data.mixing == Mixing::kWeighted && options.blend_by == BlendBy::kShare) {
    std::vector<SharedOrder> inners;
    for (std::size_t i = 0; i < orders.size(); ++i) {
      inners.push_back({std::move(orders[i]), weights[i], data.leaves[i].length_of_sample});
    }
    return with_replacement(std::make_unique<ShareBlend>(std::move(inners)));
  }
  std::vector<WeightedOrder> inners;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    inners.push_back({std::move(orders[i]), weights[i]});
  }
  return with_replacement(std::make_unique<Blend>(std::move(inners), context.seed()));
}

// All leaves, before the whole is repeated and shuffled. Adds them to `pass`.
SampleOrder mixed_order(const PipelineData& data, const TrainOptions& options,
                        const PipelineContext& context, PassLength& pass) {
  LeafOrders orders(data, context);
  std::vector<std::unique_ptr<Order>> inners;
  std::vector<double> weights;
  for (const PipelineLeaf& leaf : data.leaves) {
    const SliceOrderOptions slicing = slice_options_of(leaf, options);
    auto order = orders.next(
        slicing, leaf.slicing.max_samples_per_sequence.value_or(options.max_samples_per_sequence));
    pass.add(*order, leaf, slicing.shuffle_over_epochs, data.mixing);
    if (data.mixing == Mixing::kWeighted) {
      order = repeated(std::move(order), std::nullopt);
      weights.push_back(leaf.weight);
    } else {
      if (leaf.repetitions != 1) {
        order = repeated(std::move(order), leaf.repetitions);
      }
      weights.push_back(static_cast<double>(leaf.length) * leaf.repetitions);
    }
    inners.push_back(std::move(order));
  }
  return inners.size() == 1 ? SampleOrder{.order = std::move(inners.front())}
                            : blend(std::move(inners), weights, data, options, context);
}

}  // namespace

SampleOrder train_order(const PipelineData& data, const TrainOptions& options,
                        const PipelineContext& context) {
  PassLength pass;
  SampleOrder train = mixed_order(data, options, context, pass);
  if (options.repeat && data.mixing != Mixing::kWeighted) {
    train.order = repeated(std::move(train.order), std::nullopt);
  }
  if (options.shuffle_buffer_size > 1) {
    train.order = std::make_unique<ShuffleBuffer>(std::move(train.order),
                                                  options.shuffle_buffer_size, context.seed());
  }
  if (options.repeat) {
    train.most_left_out = pass.most_left_out(options.shuffle_buffer_size);
  }
  return train;
}

SampleOrder val_order(const PipelineData& data, const PipelineContext& context) {
  LeafOrders orders(data, context);
  std::vector<std::unique_ptr<Order>> inners;
  for (std::size_t i = 0; i < data.leaves.size(); ++i) {
    inners.push_back(
        orders.next({.shuffle_over_epochs = {.mode = Mode::kNone}, .parallel_slices = 1}));
  }
  return {.order = inners.size() == 1 ? std::move(inners.front())
                                      : std::make_unique<Concat>(std::move(inners))};
}

}  // namespace energon
