// Pipelines that have every stage there is, for tests of saved states.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "energon/loader/savable_data_loader.h"
#include "energon/read/webdataset.h"
#include "energon/stage/dataset.h"

namespace energon::testing {

/// Over two leaves in memory and `dataset`: SliceOrder (all modes), Repeat, Blend, ShareBlend,
/// Concat, ShuffleBuffer, ReadSamples, Map, BatchedMap, Filter, FlatMap, IterMap, SortPool, Packing
/// with postencode, GroupBatch, Epochize. Functions draw random numbers, so that a lost key is
/// noticed.
PipelineFactory every_stage(std::shared_ptr<const Webdataset> dataset);

/// Map, Batch with a mix of leaves, Limit, over `dataset` and lines of `jsonl_path`, in order.
PipelineFactory batches_in_order(std::shared_ptr<const Webdataset> dataset,
                                 const std::string& jsonl_path);

/// 16 slices of 16 samples: with the seed offset kTieOfSlices the draw of sample 50 is exactly the
/// sum of the first eleven weights.
PipelineFactory equal_slices();
inline constexpr std::int64_t kTieOfSlices = 4244;

/// Four datasets of equal weight: with the seed offset kTieOfBlend the draw of sample 26 is exactly
/// the sum of three weights.
PipelineFactory equal_blend();
inline constexpr std::int64_t kTieOfBlend = 825132;

/// The results of the next `count` calls of next(): keys, and digests of restore key and content;
/// or kEpochEnd.
std::vector<std::string> describe_next(SavableDataLoader& loader, std::size_t count);

}  // namespace energon::testing
