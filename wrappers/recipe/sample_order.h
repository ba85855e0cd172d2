// The orders of the standard pipelines: the sequence of samples from all leaves.
//
//   train: per leaf SliceOrder -> [Repeat]; [Blend | ShareBlend] -> [Repeat] -> [ShuffleBuffer]
//   val:   per leaf SliceOrder (in order); [Concat]

#pragma once

#include <cstdint>
#include <memory>

#include "energon/order/order.h"
#include "energon/stage/dataset.h"
#include "wrappers/orders/blend.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/recipe/pipeline.h"

namespace energon {

struct SampleOrder {
  std::unique_ptr<Order> order;
  std::int64_t most_left_out = 0;      ///< StageOptions::most_left_out; 0 without `repeat`
  Replacement* replacement = nullptr;  ///< the blend in `order`; null if there is none
};

/// The order of one logical shard in training. Throws Error (kInvalidArgument) for options out of
/// range.
SampleOrder train_order(const PipelineData& data, const TrainOptions& options,
                        const PipelineContext& context);

/// The same in validation: the leaves one after another.
SampleOrder val_order(const PipelineData& data, const PipelineContext& context);

}  // namespace energon
