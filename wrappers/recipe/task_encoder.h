// The functions that a training recipe applies between the shards and the batch, typed and with
// defaults.
//
//   decode -> cook -> tokenize -> encode | preencode -> sort -> select to pack -> postencode ->
//   pack -> batch -> encode batch
//
// Every stage is optional; docs/pipelines.md has the picture. Functions run in the workers. They
// must give the same result for the same sample and the same CallContext::rng(); otherwise a
// restored sample differs from the one delivered. The names are Energon's.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "media/decode/sample_decoder.h"
#include "wrappers/batching/batch.h"
#include "wrappers/batching/batch_functions.h"
#include "wrappers/batching/group_batch.h"
#include "wrappers/batching/packing.h"
#include "wrappers/batching/sort_pool.h"
#include "wrappers/stages/batched_map.h"
#include "wrappers/stages/cook.h"
#include "wrappers/stages/map.h"
#include "wrappers/stages/tokenize.h"

namespace energon {

/// A function of one sample: none, one that makes one sample, or one that makes any number.
using SampleStage = std::variant<std::monostate, MapFunction, FlatMapFunction>;

struct TaskEncoder {
  /// Decodes the parts of samples as soon as they are read, so that cookers and encode_sample get
  /// tensors, texts and mappings (docs/media.md). Absent: parts stay bytes.
  std::optional<SampleDecoderOptions> decoder = std::nullopt;
  /// For crude samples: the first cooker whose labels match a dataset's subflavors cooks its
  /// samples. Empty: samples pass unchanged.
  std::vector<Cooker> cookers = {};
  /// Cache of each worker for CookContext::lazy_primary() and lazy_aux().
  FileCacheOptions cache = {};
  /// Tokenizes strings, before encode_sample and preencode_sample (docs/media.md).
  std::optional<TokenizeOptions> tokenizer = std::nullopt;

  /// Encodes samples in pipelines that do not pack; excludes preencode and postencode.
  SampleStage encode_sample = {};
  /// The same for many samples in one call (wrappers/stages/batched_map.h); excludes encode_sample,
  /// too.
  BatchedMapFunction encode_samples = nullptr;

  /// Runs before packing and provides what select_samples_to_pack needs, such as the length.
  SampleStage preencode_sample = {};
  /// If set, samples are sorted by it in pools, so that samples of a batch or a pack cost about the
  /// same.
  CostFunction cost = nullptr;

  /// Selects which samples of the packing buffer become packs.
  SelectStage select_samples_to_pack = {};
  /// Makes the parts that select_samples_to_pack selects, if it selects parts of samples.
  CutFunction cut_selected_sample = nullptr;
  /// Runs on selected samples only: the expensive part of encoding.
  MapFunction postencode_sample = nullptr;
  /// Makes one pack from the samples or, as a generator, any number.
  PackStage pack_selected_samples = {};

  /// If set, samples are batched in groups, for example by aspect ratio or with by_length().
  GroupFunction batch_group_criterion = nullptr;
  /// Makes one batch or, as a generator, any number; a generator excludes groups.
  BatchStage batch = generic_batch;
  SampleStage encode_batch = {};
};

/// Names of the stages in reports, statistics and ErrorPolicies.
namespace stage_names {
inline constexpr std::string_view kRead = "read";
inline constexpr std::string_view kDecode = "decode";  ///< where there are no cookers
/// Where there are no cookers and a PipelineLeaf has a function `load`; with decoding.
inline constexpr std::string_view kLoadSample = "load_sample";
inline constexpr std::string_view kCook = "cook";  ///< with decoding and loading in front
inline constexpr std::string_view kTokenize = "tokenize";
inline constexpr std::string_view kEncodeSample = "encode_sample";
inline constexpr std::string_view kEncodeSamples = "encode_samples";
inline constexpr std::string_view kPreencodeSample = "preencode_sample";
inline constexpr std::string_view kSampleCost = "sample_cost";
inline constexpr std::string_view kSelectSamplesToPack = "select_samples_to_pack";
inline constexpr std::string_view kPostencodeSample = "postencode_sample";
inline constexpr std::string_view kPackSelectedSamples = "pack_selected_samples";
inline constexpr std::string_view kBatchGroupCriterion = "batch_group_criterion";
inline constexpr std::string_view kBatch = "batch";
inline constexpr std::string_view kEncodeBatch = "encode_batch";
}  // namespace stage_names

/// Throws Error (kInvalidArgument) for functions that exclude each other or need one that is
/// missing.
void validate(const TaskEncoder& encoder, std::optional<std::int64_t> packing_buffer_size,
              std::optional<std::int64_t> batch_size,
              std::optional<std::int64_t> sort_pool_size = std::nullopt);

}  // namespace energon
