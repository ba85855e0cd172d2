// Recomputes the order of a saved job without its program: rebuilds the pipeline that saved a
// state, but with functions that do nothing, and without reading samples.
//
// Functions that make one sample from one (cook, encode, preencode, postencode, encode batch) and
// batches do not change which samples are in an item, so the items have the same restore keys as in
// the job, unless it skipped samples. Stages that use a function to decide which samples are in an
// item (sort pools, packing, groups, filters, flat maps, iter maps) cannot be recomputed without
// that function. Nor can stages that read ahead (encode_samples), except by a replay.
//
// A replay pipeline also reads and decodes the samples, and skips those that fail. Its items are
// those of a job that skipped exactly these samples.

#pragma once

#include "energon/stage/dataset.h"
#include "energon/state/savable.h"
#include "wrappers/recipe/pipeline.h"

namespace energon {

/// The pipeline over `data` with the stages listed in `config`, the configuration of a state
/// (SavableDataLoaderState::config), and the order from `options`. The task encoder, error
/// policies, watchdog and log of `options` are not used. The pipeline's configuration equals that
/// of the state if data and options are those of the job. Throws Error: kUnsupported, naming the
/// first stage that cannot be recomputed and the alternatives; kCorruptData if `config` does not
/// belong to a pipeline. kUnsupported, too, if the data has samples that are excluded in place: the
/// order does not show since when.
PipelineFactory order_pipeline(PipelineData data, TrainOptions options, const Config& config);
PipelineFactory order_pipeline(PipelineData data, ValOptions options, const Config& config);

/// The same, but samples are read, and decoded and tokenized with the options of the task encoder
/// if the job did so. Failures are skipped, without a limit. Throws Error as order_pipeline().
PipelineFactory replay_pipeline(PipelineData data, TrainOptions options, const Config& config);
PipelineFactory replay_pipeline(PipelineData data, ValOptions options, const Config& config);

}  // namespace energon
