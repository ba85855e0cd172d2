// The order of a saved job without its program: the pipeline that a state was saved by, with
// functions that change nothing and samples that are not read.
//
// Functions that make one sample of one (cook, encode, preencode, postencode, encode batch) and
// batches do not change which samples an item is made of, so the items have the same restore keys
// as in the job. What decides by a function which samples an item has (packing, groups, filters,
// flat maps, iter maps) cannot be told without that function.

#pragma once

#include "energon/stage/pipeline.h"
#include "energon/state/savable.h"
#include "wrappers/recipe/pipeline.h"

namespace energon {

/// The pipeline over `data` with the stages that stand in `config`, the configuration of a state
/// (SavableDataLoaderState::config), and the order of `options`; its task encoder, error policies,
/// watchdog and log are not used. Its configuration equals that of the state if data and options
/// are those of the job. Throws Error: kUnsupported that names the first stage which cannot be
/// told, and what can; kCorruptData if `config` is of no pipeline.
PipelineFactory order_pipeline(PipelineData data, TrainOptions options, const Config& config);
PipelineFactory order_pipeline(PipelineData data, ValOptions options, const Config& config);

}  // namespace energon
