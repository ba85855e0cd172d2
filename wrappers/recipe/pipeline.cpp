#include "wrappers/recipe/pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "energon/order/worker_config.h"
#include "energon/sample/restore_key.h"
#include "energon/stage/dataset.h"
#include "energon/stage/failure.h"
#include "energon/stage/stage_guard.h"
#include "io/error.h"
#include "media/decode/sample_decoder.h"
#include "wrappers/batching/batch.h"
#include "wrappers/batching/group_batch.h"
#include "wrappers/batching/packing.h"
#include "wrappers/batching/sort_pool.h"
#include "wrappers/buffers/combine.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/recipe/epoch_length.h"
#include "wrappers/recipe/sample_order.h"
#include "wrappers/recipe/task_encoder.h"
#include "wrappers/stages/batched_map.h"
#include "wrappers/stages/cook.h"
#include "wrappers/stages/epochs.h"
#include "wrappers/stages/map.h"
#include "wrappers/stages/read_samples.h"
#include "wrappers/stages/typed_samples.h"
#include "wrappers/watch/log_sample.h"
#include "wrappers/watch/timed_stage.h"
#include "wrappers/watch/watchdog.h"

namespace energon {

// --- Stages ---

namespace {

// A function that decodes each part of a sample by its name (media/decode/sample_decoder.h) into
// the memory of the batch, so that images of one size are stacked without a copy, and passes the
// result to `next`, if there is one. Throws Error (kInvalidArgument) for an unknown image mode.
MapFunction decode_then(SampleDecoderOptions options, MapFunction next) {
  return [decoder = SampleDecoder(std::move(options)), next = std::move(next)](
             Sample sample, CallContext& context) {
    decoder.decode(sample, context.memory(), decoder.rng_of(context));
    return next ? next(std::move(sample), context) : sample;
  };
}

// A function that calls PipelineLeaf::load for the leaves that have one, then `cook`, and `others`
// for the other leaves. Both may be null.
MapFunction load_or(const std::vector<PipelineLeaf>& leaves, MapFunction others, MapFunction cook) {
  std::vector<LoadFunction> loads;
  for (const PipelineLeaf& leaf : leaves) {
    loads.push_back(leaf.load);
  }
  return [loads = std::move(loads), others = std::move(others), cook = std::move(cook)](
             Sample sample, CallContext& context) {
    const LoadFunction& load = loads.at(static_cast<std::size_t>(leaf_of(sample.restore_key)));
    if (load == nullptr) {
      return others ? others(std::move(sample), context) : sample;
    }
    const Sample origins = origins_of(sample);
    const RestoreKey key = sample.restore_key;
    Sample loaded = load(std::move(sample), context);
    set_origins(loaded, origins);
    loaded.restore_key = key;  // by which the cooker of the leaf is found
    return cook ? cook(std::move(loaded), context) : loaded;
  };
}

/// The options that training and validation share: those of the stages after reading. Refers to the
/// options that it is made from.
struct Encoding {
  template <class Options>
  explicit Encoding(const Options& options)
      : encoder(options.task_encoder),
        batch_size(options.batch_size),
        remainder(options.remainder),
        samples_per_call(options.samples_per_call),
        sort_pool_size(options.sort_pool_size),
        packing_buffer_size(options.packing_buffer_size),
        errors(options.errors),
        watchdog(options.watchdog),
        log_path(options.log_path) {}

  const TaskEncoder& encoder;
  const std::optional<std::int64_t> batch_size;
  const BatchOptions::Remainder remainder;
  const std::int64_t samples_per_call;
  const std::optional<std::int64_t> sort_pool_size;
  const std::optional<std::int64_t> packing_buffer_size;
  const ErrorPolicies& errors;
  const std::optional<WatchdogOptions>& watchdog;
  const std::string& log_path;
};

/// Nests the stages of a pipeline, from reading to the watchdog. Each add_…() wraps the stages
/// added before.
class Assembly {
 public:
  /// All arguments must outlive the assembly.
  Assembly(const PipelineData& data, const Encoding& encoding, const PipelineContext& context)
      : data_(data), encoding_(encoding), context_(context) {}

  /// The stages from reading to the encoded batch. Comes first.
  void add_encoding(SampleOrder order);

  /// Divides the stream into epochs of this many batches of the rank.
  void add_epochs(std::int64_t length_of_rank, Epochize::AtEnd at_end);
  /// Ends each epoch after this many batches of the rank; the next one starts over.
  void add_limit(std::int64_t length_of_rank);

  /// The whole pipeline, with log and watchdog. Comes last.
  std::unique_ptr<Dataset> finish();

 private:
  StageOptions stage(std::string_view name) const;
  std::function<bool(const SampleRef&)> excluded_in_place() const;
  std::int64_t share_of_stream(std::int64_t length_of_rank) const;
  template <class Stage, class... Arguments>
  void add(std::string_view name, Arguments&&... arguments);
  TimedStage& measure(std::string_view name, CountBytes count_bytes = CountBytes::kNo);
  ReplaceFunction add_reading(SampleOrder order);
  void add_cooking(ReplaceFunction replace);
  void add_function(std::string_view name, const SampleStage& function);
  void add_calls_of_many();
  void add_sorting();
  void add_packing();
  void add_batching();
  void add_batches(std::int64_t batch_size);

  const PipelineData& data_;
  const Encoding& encoding_;
  const PipelineContext& context_;
  const std::shared_ptr<PipelineClock> clock_ = std::make_shared<PipelineClock>();
  std::int64_t most_left_out_ = 0;
  std::unique_ptr<Dataset> dataset_;  // the stages so far
};

template <class Stage, class... Arguments>
void Assembly::add(std::string_view name, Arguments&&... arguments) {
  dataset_ = std::make_unique<Stage>(std::move(dataset_), std::forward<Arguments>(arguments)...);
  measure(name);
}

void Assembly::add_encoding(SampleOrder order) {
  most_left_out_ = order.most_left_out;
  const TaskEncoder& encoder = encoding_.encoder;
  add_cooking(add_reading(std::move(order)));
  if (encoder.tokenizer) {
    add<Map>(stage_names::kTokenize, tokenize_fields(*encoder.tokenizer),
             stage(stage_names::kTokenize));
  }
  add_function(stage_names::kEncodeSample, encoder.encode_sample);
  add_calls_of_many();
  add_function(stage_names::kPreencodeSample, encoder.preencode_sample);
  add_sorting();
  add_packing();
  add_batching();
  add_function(stage_names::kEncodeBatch, encoder.encode_batch);
}

void Assembly::add_epochs(std::int64_t length_of_rank, Epochize::AtEnd at_end) {
  dataset_ =
      std::make_unique<Epochize>(std::move(dataset_), share_of_stream(length_of_rank), at_end);
}

void Assembly::add_limit(std::int64_t length_of_rank) {
  dataset_ = std::make_unique<Limit>(std::move(dataset_), share_of_stream(length_of_rank));
}

std::int64_t Assembly::share_of_stream(std::int64_t length_of_rank) const {
  return share_of(length_of_rank, context_.local_index, context_.config.logical_shards_per_rank());
}

std::unique_ptr<Dataset> Assembly::finish() {
  if (!encoding_.log_path.empty()) {
    dataset_ = std::make_unique<LogSample>(std::move(dataset_), encoding_.log_path, context_.config,
                                           context_.config.worker_of(context_.local_index));
  }
  if (encoding_.watchdog) {
    WatchdogOptions options = *encoding_.watchdog;
    options.logical_shard = context_.logical_shard();
    options.clock = clock_;
    if (options.on_timeout == OnTimeout::kEndWorker && context_.config.num_workers == 0) {
      options.on_timeout = OnTimeout::kThrow;  // must not end the caller's process
    }
    dataset_ = std::make_unique<Watchdog>(std::move(dataset_), std::move(options));
  }
  return std::move(dataset_);
}

StageOptions Assembly::stage(std::string_view name) const {
  return {.name = std::string(name),
          .seed = worker_seed(0, context_.config.seed_offset),
          .memory = context_.batch_memory,
          .policy = encoding_.errors.of(name),
          .most_left_out = most_left_out_,
          .is_excluded = excluded_in_place(),
          .monitor = context_.monitor};
}

std::function<bool(const SampleRef&)> Assembly::excluded_in_place() const {
  std::vector<std::shared_ptr<const LeafDataset>> leaves;
  bool is_any = false;
  for (const PipelineLeaf& leaf : data_.leaves) {
    leaves.push_back(leaf.dataset);
    is_any = is_any || !leaf.dataset->excluded_in_place().empty();
  }
  if (!is_any) {
    return nullptr;
  }
  return [leaves = std::move(leaves)](const SampleRef& sample) {
    return sample.leaf < leaves.size() &&
           std::ranges::binary_search(leaves[sample.leaf]->excluded_in_place(), sample.index);
  };
}

TimedStage& Assembly::measure(std::string_view name, CountBytes count_bytes) {
  auto measured = std::make_unique<TimedStage>(std::move(dataset_), name, clock_, context_.monitor,
                                               count_bytes);
  TimedStage& stage = *measured;
  dataset_ = std::move(measured);
  return stage;
}

// Returns the function with which the next stage replaces a skipped sample; null if there is only
// one leaf, whose next sample follows anyway.
ReplaceFunction Assembly::add_reading(SampleOrder order) {
  std::vector<std::shared_ptr<const LeafDataset>> leaves;
  for (const PipelineLeaf& leaf : data_.leaves) {
    leaves.push_back(leaf.dataset);
  }
  auto reading =
      std::make_unique<ReadSamples>(std::move(order.order), std::move(leaves), context_.memory,
                                    stage(stage_names::kRead), context_.readers);
  ReadSamples* const read = reading.get();
  dataset_ = std::move(reading);
  TimedStage* const measured = &measure(stage_names::kRead, CountBytes::kYes);
  if (order.replacement == nullptr) {
    return nullptr;
  }
  // The stage that calls this owns the stages before it, so all of them are alive.
  return [read, measured, replacement = order.replacement](const RestoreKey& left_out,
                                                           std::int64_t in_a_row) {
    const RestoreKeyParts parts = split_key(left_out, Stage::kWebdataset, 2, 0);
    const SampleRef ref{.index = parts.integers[1],
                        .leaf = static_cast<std::uint32_t>(parts.integers[0])};
    return measured->measure([&] { return read->read_instead(*replacement, ref, in_a_row); });
  };
}

// Decoding, loading and cooking are one stage, because only the one after reading can replace
// samples.
void Assembly::add_cooking(ReplaceFunction replace) {
  const TaskEncoder& encoder = encoding_.encoder;
  const auto any_leaf = [&](auto&& predicate) {
    return std::ranges::any_of(data_.leaves, predicate);
  };
  const bool is_typed = any_leaf([](const PipelineLeaf& leaf) { return leaf.typed.has_value(); });
  const bool is_loaded = any_leaf([](const PipelineLeaf& leaf) { return leaf.load != nullptr; });
  if (!is_typed && !is_loaded && !encoder.decoder && encoder.cookers.empty()) {
    return;
  }
  MapFunction cook;
  if (!encoder.cookers.empty()) {
    cook = cook_function(encoder.cookers, data_.leaves, encoder.cache);
  }
  MapFunction function = cook;
  if (is_typed) {
    function = typed_samples(encoder.decoder.value_or(SampleDecoderOptions()), data_.leaves, cook);
  } else if (encoder.decoder) {
    function = decode_then(*encoder.decoder, cook);
  }
  if (is_loaded) {
    function = load_or(data_.leaves, std::move(function), cook);
  }
  const std::string_view name = cook        ? stage_names::kCook
                                : is_loaded ? stage_names::kLoadSample
                                            : stage_names::kDecode;
  add<Map>(name, std::move(function), stage(name), std::move(replace));
}

void Assembly::add_function(std::string_view name, const SampleStage& function) {
  if (const auto* one = std::get_if<MapFunction>(&function)) {
    add<Map>(name, *one, stage(name));
  } else if (const auto* any = std::get_if<FlatMapFunction>(&function)) {
    add<FlatMap>(name, *any, stage(name));
  }
}

void Assembly::add_calls_of_many() {
  if (encoding_.encoder.encode_samples) {
    add<BatchedMap>(stage_names::kEncodeSamples,
                    BatchedMapOptions{.function = encoding_.encoder.encode_samples,
                                      .samples_per_call = encoding_.samples_per_call,
                                      .stage = stage(stage_names::kEncodeSamples)});
  }
}

void Assembly::add_sorting() {
  if (encoding_.sort_pool_size) {
    add<SortPool>(stage_names::kSampleCost,
                  SortPoolOptions{.cost = encoding_.encoder.cost,
                                  .pool_size = *encoding_.sort_pool_size,
                                  .stage = stage(stage_names::kSampleCost)});
  }
}

void Assembly::add_packing() {
  const TaskEncoder& encoder = encoding_.encoder;
  if (encoding_.packing_buffer_size) {
    add<Packing>(stage_names::kPackSelectedSamples,
                 PackingOptions{.buffer_size = *encoding_.packing_buffer_size,
                                .select = encoder.select_samples_to_pack,
                                .cut = encoder.cut_selected_sample,
                                .postencode = encoder.postencode_sample,
                                .pack = encoder.pack_selected_samples,
                                .select_stage = stage(stage_names::kSelectSamplesToPack),
                                .postencode_stage = stage(stage_names::kPostencodeSample),
                                .pack_stage = stage(stage_names::kPackSelectedSamples),
                                .clock = clock_});
  } else if (encoder.postencode_sample) {
    add_function(stage_names::kPostencodeSample, SampleStage(encoder.postencode_sample));
  }
}

void Assembly::add_batching() {
  const TaskEncoder& encoder = encoding_.encoder;
  if (encoder.batch_group_criterion) {
    add<GroupBatch>(stage_names::kBatch,
                    GroupBatchOptions{.criterion = encoder.batch_group_criterion,
                                      .batch_size = encoding_.batch_size,
                                      .remainder = encoding_.remainder,
                                      .function = std::get<BatchFunction>(encoder.batch),
                                      .group_stage = stage(stage_names::kBatchGroupCriterion),
                                      .batch_stage = stage(stage_names::kBatch),
                                      .clock = clock_});
  } else if (encoding_.batch_size) {
    add_batches(*encoding_.batch_size);
  }
}

void Assembly::add_batches(std::int64_t batch_size) {
  const BatchStage& function = encoding_.encoder.batch;
  if (const auto* one = std::get_if<BatchFunction>(&function)) {
    add<Batch>(stage_names::kBatch, BatchOptions{.batch_size = batch_size,
                                                 .remainder = encoding_.remainder,
                                                 .function = *one,
                                                 .stage = stage(stage_names::kBatch)});
    return;
  }
  dataset_ = generated_batches(std::move(dataset_), {.batch_size = batch_size,
                                                     .remainder = encoding_.remainder,
                                                     .function = std::get<BatchGenerator>(function),
                                                     .stage = stage(stage_names::kBatch)});
  measure(stage_names::kBatch);
}

}  // namespace

// --- Pipelines ---

namespace {

// Shared by all copies of a factory, because options may be large.
template <class Options>
struct Parts {
  PipelineData data;
  Options options;
};

void check_not_negative(std::string_view name, std::int64_t value) {
  if (value < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}, expected at least 0; 0 means none", name, value));
  }
}

void check_tolerances(const ErrorPolicies& errors) {
  check_not_negative("the failure tolerance", errors.standard.tolerance);
  for (const auto& [stage, policy] : errors.stages) {
    check_not_negative(fmt::format("the failure tolerance of '{}'", stage), policy.tolerance);
  }
}

template <class Options>
std::shared_ptr<const Parts<Options>> checked_parts(PipelineData data, Options options) {
  if (data.leaves.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "a pipeline needs at least one dataset");
  }
  validate(options.task_encoder, options.packing_buffer_size, options.batch_size,
           options.sort_pool_size);
  check_tolerances(options.errors);
  if (!options.task_encoder.cookers.empty()) {
    // Throws here, not in the worker.
    cook_function(options.task_encoder.cookers, data.leaves, options.task_encoder.cache);
  }
  return std::make_shared<const Parts<Options>>(
      Parts<Options>{std::move(data), std::move(options)});
}

}  // namespace

PipelineFactory train_pipeline(PipelineData data, TrainOptions options) {
  if (data.mixing == Mixing::kWeighted && !options.repeat) {
    throw Error(ErrorCode::kInvalidArgument,
                "a blend by weight never ends: repeat must be true (use blend_epochized for epochs "
                "with an end, or virtual_epoch_length)");
  }
  check_not_negative("virtual_epoch_length", options.virtual_epoch_length);
  check_not_negative("shuffle_buffer_size", options.shuffle_buffer_size);
  return [parts = checked_parts(std::move(data), std::move(options))](
             const PipelineContext& context) -> std::unique_ptr<Dataset> {
    const TrainOptions& options = parts->options;
    const Encoding encoding(options);
    Assembly assembly(parts->data, encoding, context);
    assembly.add_encoding(train_order(parts->data, options, context));
    if (options.virtual_epoch_length > 0) {
      assembly.add_epochs(options.virtual_epoch_length, options.repeat
                                                            ? Epochize::AtEnd::kBeginAgain
                                                            : Epochize::AtEnd::kEndEpoch);
    }
    return assembly.finish();
  };
}

PipelineFactory val_pipeline(PipelineData data, ValOptions options) {
  check_not_negative("limit", options.limit.value_or(0));
  return [parts = checked_parts(std::move(data), std::move(options))](
             const PipelineContext& context) -> std::unique_ptr<Dataset> {
    const ValOptions& options = parts->options;
    const Encoding encoding(options);
    Assembly assembly(parts->data, encoding, context);
    assembly.add_encoding(val_order(parts->data, context));
    if (options.limit.value_or(0) > 0) {
      assembly.add_limit(*options.limit);
    }
    return assembly.finish();
  };
}

PipelineFactory limited_pipeline(PipelineFactory pipeline, std::int64_t length) {
  return [pipeline = std::move(pipeline), length](const PipelineContext& context) {
    check_not_negative("the limit", length);
    const std::int64_t share =
        share_of(length, context.local_index, context.config.logical_shards_per_rank());
    return std::make_unique<Limit>(pipeline(context), share);
  };
}

PipelineFactory repeated_pipeline(PipelineFactory pipeline, std::optional<double> repetitions,
                                  bool restarts) {
  return [pipeline = std::move(pipeline), repetitions, restarts](const PipelineContext& context) {
    std::unique_ptr<Dataset> inner = pipeline(context);
    const bool has_fraction = repetitions && *repetitions != std::floor(*repetitions);
    const std::int64_t pass_length = has_fraction ? nominal_length(*inner) : 0;
    return std::make_unique<RepeatEpochs>(
        std::move(inner),
        RepeatEpochs::Options{
            .repetitions = repetitions, .pass_length = pass_length, .restarts = restarts});
  };
}

PipelineFactory train_dataset(const std::string& path, const DataOptions& data,
                              TrainOptions options) {
  return train_pipeline(open_data(path, data), std::move(options));
}

PipelineFactory val_dataset(const std::string& path, const DataOptions& data, ValOptions options) {
  return val_pipeline(open_data(path, data), std::move(options));
}

}  // namespace energon
