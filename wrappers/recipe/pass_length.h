// How many samples make one whole pass over the leaves of an order without end.
//
// A pipeline that can use none of its samples would run forever in an endless epoch. The length of
// a pass tells after how many samples in a row without a result the pipeline must give up.

#pragma once

#include <cstdint>

#include "energon/order/order.h"
#include "energon/order/slice_order.h"
#include "io/recipe/metadataset.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon {

class PassLength {
 public:
  /// Adds `order`, the order of `leaf` before repeating.
  void add(const Order& order, const PipelineLeaf& leaf, const ShuffleOverEpochs& shuffle,
           Mixing mixing);

  /// How many samples in a row may be left out (StageOptions::most_left_out) if a shuffle buffer of
  /// this size follows; 0, no bound, if the number is beyond counting.
  std::int64_t most_left_out(std::int64_t shuffle_buffer_size) const;

 private:
  // Leaves with repetitions.
  double sum_ = 0;     // samples of one epoch
  double rounds_ = 1;  // epochs until a leaf repeated less than once was read whole
  // Leaves with weights.
  double weights_ = 0;  // their sum
  double longest_ = 0;  // the largest number of samples divided by the weight of its leaf
};

}  // namespace energon
