#include "wrappers/recipe/pipeline.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "energon/order/sharder.h"
#include "io/error.h"
#include "wrappers/batching/batch_generator.h"
#include "wrappers/orders/blend.h"
#include "wrappers/orders/concat.h"
#include "wrappers/orders/repeat.h"
#include "wrappers/orders/replacement.h"
#include "wrappers/orders/share_blend.h"
#include "wrappers/orders/shuffle_buffer.h"
#include "wrappers/stages/epochize.h"
#include "wrappers/stages/limit.h"
#include "wrappers/stages/read_samples.h"
#include "wrappers/watch/log_sample.h"
#include "wrappers/watch/measured.h"

namespace energon {
namespace {

using Mode = ShuffleOverEpochs::Mode;

// --- Orders ---

ShuffleOverEpochs multiplied(const ShuffleOverEpochs& shuffle,
                             const ShuffleMultiplier& multiplier) {
  if (shuffle.mode == Mode::kNone || multiplier.mode == ShuffleMultiplier::Mode::kNone) {
    return {.mode = Mode::kNone};
  }
  if (shuffle.mode == Mode::kReplacement ||
      multiplier.mode == ShuffleMultiplier::Mode::kReplacement) {
    return {.mode = Mode::kReplacement};
  }
  std::int64_t epochs = 0;
  if (__builtin_mul_overflow(shuffle.epochs, multiplier.epochs, &epochs)) {
    epochs = std::numeric_limits<std::int64_t>::max();  // refused by SliceOrder
  }
  return {.mode = Mode::kEpochs, .epochs = epochs};
}

/// Makes the orders of the leaves of one logical shard, each with the rotation that it has in
/// Energon: datasets after each other give their remainders to different logical shards.
class LeafOrders {
 public:
  LeafOrders(const PipelineData& data, const PipelineContext& context)
      : data_(data), context_(context) {}

  std::unique_ptr<Order> next(SliceOrderOptions options,
                              std::optional<std::int64_t> max_samples_per_sequence = std::nullopt) {
    const PipelineLeaf& leaf = data_.leaves[leaf_];
    SharderInput input{.shard_counts = leaf.dataset->shard_counts(),
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

std::unique_ptr<Order> repeated(std::unique_ptr<Order> order, std::optional<double> repetitions) {
  return std::make_unique<Repeat>(std::move(order), repetitions);
}

// Where this many whole passes over the data gave nothing, nothing usable is expected: a sample
// that random draws may miss was among them with a chance of 1 - 1e-10.
constexpr double kUselessPasses = 25;

/// How many samples of an order without end make one whole pass over its leaves.
class PassLength {
 public:
  void add(const Order& order, const PipelineLeaf& leaf, const ShuffleOverEpochs& shuffle,
           Mixing mixing) {
    auto samples = static_cast<double>(order.samples_per_pass().value_or(0));
    if (samples == 0) {
      return;
    }
    if (shuffle.mode == Mode::kEpochs) {
      samples *= static_cast<double>(shuffle.epochs);
    }
    if (mixing == Mixing::kWeighted) {
      weights_ += leaf.weight;
      longest_ = std::max(longest_, samples / leaf.weight);
    } else {
      sum_ += samples * leaf.repetitions;
      rounds_ = std::max(rounds_, 1 / leaf.repetitions);  // until a part of a leaf was all of it
    }
  }

  double samples() const { return sum_ * rounds_ + longest_ * weights_; }

 private:
  double sum_ = 0;
  double rounds_ = 1;
  double weights_ = 0;
  double longest_ = 0;  // samples of a leaf by its weight
};

// In a row; 0 if the number is beyond counting.
std::int64_t most_left_out(const PassLength& pass, std::int64_t shuffle_buffer_size) {
  const double samples =
      kUselessPasses * (pass.samples() + static_cast<double>(shuffle_buffer_size) + 1);
  return samples < 1e15 ? static_cast<std::int64_t>(samples) : 0;
}

struct TrainOrder {
  std::unique_ptr<Order> order;
  std::int64_t most_left_out = 0;      // in a row, in an epoch without end; else 0
  Replacement* replacement = nullptr;  // the blend in `order`, if there is one
};

template <class Order>
TrainOrder with_replacement(std::unique_ptr<Order> blend) {
  Replacement* const replacement = blend.get();
  return {.order = std::move(blend), .replacement = replacement};
}

TrainOrder blend(std::vector<std::unique_ptr<Order>> orders, const std::vector<double>& weights,
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

TrainOrder train_order(const PipelineData& data, const TrainOptions& options,
                       const PipelineContext& context) {
  LeafOrders orders(data, context);
  std::vector<std::unique_ptr<Order>> inners;
  std::vector<double> weights;
  PassLength pass;
  for (const PipelineLeaf& leaf : data.leaves) {
    // A leaf that its metadataset keeps in order is read slice by slice.
    const bool is_kept_in_order = leaf.shuffle.mode == ShuffleMultiplier::Mode::kNone;
    const LeafSlicing& own = leaf.slicing;
    const auto shuffle =
        own.shuffle_over_epochs.value_or(multiplied(options.shuffle_over_epochs, leaf.shuffle));
    const std::int64_t parallel = own.parallel_slices.value_or(options.parallel_slices);
    const bool is_in_order =
        own.shuffle_over_epochs ? shuffle.mode == Mode::kNone : is_kept_in_order;
    auto order =
        orders.next({.shuffle_over_epochs = shuffle, .parallel_slices = is_in_order ? 1 : parallel},
                    own.max_samples_per_sequence.value_or(options.max_samples_per_sequence));
    pass.add(*order, leaf, shuffle, data.mixing);
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
  TrainOrder train = inners.size() == 1 ? TrainOrder{.order = std::move(inners.front())}
                                        : blend(std::move(inners), weights, data, options, context);
  if (options.repeat && data.mixing != Mixing::kWeighted) {
    train.order = repeated(std::move(train.order), std::nullopt);
  }
  if (options.shuffle_buffer_size > 1) {
    train.order = std::make_unique<ShuffleBuffer>(std::move(train.order),
                                                  options.shuffle_buffer_size, context.seed());
  }
  if (options.repeat) {
    train.most_left_out = most_left_out(pass, options.shuffle_buffer_size);
  }
  return train;
}

std::unique_ptr<Order> val_order(const PipelineData& data, const PipelineContext& context) {
  LeafOrders orders(data, context);
  std::vector<std::unique_ptr<Order>> inners;
  for (std::size_t i = 0; i < data.leaves.size(); ++i) {
    inners.push_back(
        orders.next({.shuffle_over_epochs = {.mode = Mode::kNone}, .parallel_slices = 1}));
  }
  return inners.size() == 1 ? std::move(inners.front())
                            : std::make_unique<Concat>(std::move(inners));
}

// --- Samples ---

// What training and validation have in common: all after reading.
struct Encoding {
  template <class Options>
  explicit Encoding(const Options& options)
      : encoder(options.task_encoder),
        batch_size(options.batch_size),
        remainder(options.remainder),
        packing_buffer_size(options.packing_buffer_size),
        errors(options.errors),
        watchdog(options.watchdog),
        log_path(options.log_path) {}

  const TaskEncoder& encoder;
  const std::optional<std::int64_t> batch_size;
  const BatchOptions::Remainder remainder;
  const std::optional<std::int64_t> packing_buffer_size;
  const ErrorPolicies& errors;
  const std::optional<WatchdogOptions>& watchdog;
  const std::string& log_path;
};

/// Puts stage after stage around a pipeline of samples.
class Assembly {
 public:
  Assembly(const PipelineData& data, const Encoding& encoding, const PipelineContext& context)
      : data_(data), encoding_(encoding), context_(context) {}

  /// The stages from reading to the encoded batch.
  void add_encoding(TrainOrder order) {
    most_left_out_ = order.most_left_out;
    const TaskEncoder& encoder = encoding_.encoder;
    ReplaceFunction replace = add_reading(std::move(order));
    if (!encoder.cookers.empty()) {
      add<Map>(stage_names::kCook, cook_function(encoder.cookers, data_.leaves, encoder.cache),
               stage(stage_names::kCook), std::move(replace));
    }
    add_function(stage_names::kEncodeSample, encoder.encode_sample);
    add_function(stage_names::kPreencodeSample, encoder.preencode_sample);
    add_packing();
    add_batching();
    add_function(stage_names::kEncodeBatch, encoder.encode_batch);
  }

  /// Cuts the stream: Epochize or Limit.
  template <class Stage, class... Arguments>
  void add_end(std::int64_t length_of_rank, Arguments&&... arguments) {
    dataset_ = std::make_unique<Stage>(
        std::move(dataset_),
        share_of(length_of_rank, context_.stream, context_.config.stream_count()),
        std::forward<Arguments>(arguments)...);
  }

  /// The whole pipeline, with what watches it.
  std::unique_ptr<Dataset> finish() {
    if (!encoding_.log_path.empty()) {
      dataset_ =
          std::make_unique<LogSample>(std::move(dataset_), encoding_.log_path, context_.config,
                                      context_.config.worker_of(context_.stream));
    }
    if (encoding_.watchdog) {
      WatchdogOptions options = *encoding_.watchdog;
      options.logical_shard = context_.logical_shard();
      options.clock = clock_;
      if (options.on_timeout == OnTimeout::kEndWorker && context_.config.num_workers == 0) {
        options.on_timeout = OnTimeout::kThrow;  // the caller's process is not ours to end
      }
      dataset_ = std::make_unique<Watchdog>(std::move(dataset_), std::move(options));
    }
    return std::move(dataset_);
  }

 private:
  StageOptions stage(std::string_view name) const {
    return {.name = std::string(name),
            .seed = worker_seed(0, context_.config.seed_offset),
            .policy = encoding_.errors.of(name),
            .most_left_out = most_left_out_,
            .monitor = context_.monitor};
  }

  template <class Stage, class... Arguments>
  void add(std::string_view name, Arguments&&... arguments) {
    dataset_ = std::make_unique<Stage>(std::move(dataset_), std::forward<Arguments>(arguments)...);
    measure(name);
  }

  Measured& measure(std::string_view name, CountBytes count_bytes = CountBytes::kNo) {
    auto measured = std::make_unique<Measured>(std::move(dataset_), name, clock_, context_.monitor,
                                               count_bytes);
    Measured& stage = *measured;
    dataset_ = std::move(measured);
    return stage;
  }

  // Returns how the next stage gets a sample in place of one that it leaves out; nothing if there
  // is only one leaf, whose next sample comes anyway.
  ReplaceFunction add_reading(TrainOrder order) {
    std::vector<std::shared_ptr<const LeafDataset>> leaves;
    for (const PipelineLeaf& leaf : data_.leaves) {
      leaves.push_back(leaf.dataset);
    }
    auto reading =
        std::make_unique<ReadSamples>(std::move(order.order), std::move(leaves), context_.memory,
                                      stage(stage_names::kRead), context_.readers);
    ReadSamples* const read = reading.get();
    dataset_ = std::move(reading);
    Measured* const measured = &measure(stage_names::kRead, CountBytes::kYes);
    if (order.replacement == nullptr) {
      return nullptr;
    }
    // All live as long as the stage that asks: it owns those before it.
    return [read, measured, replacement = order.replacement](const RestoreKey& left_out,
                                                             std::int64_t in_a_row) {
      const RestoreKeyParts parts = split_key(left_out, Stage::kWebdataset, 2, 0);
      const SampleRef ref{.index = parts.integers[1],
                          .leaf = static_cast<std::uint32_t>(parts.integers[0])};
      return measured->measure([&] { return read->read_instead(*replacement, ref, in_a_row); });
    };
  }

  void add_function(std::string_view name, const SampleStage& function) {
    if (const auto* one = std::get_if<MapFunction>(&function)) {
      add<Map>(name, *one, stage(name));
    } else if (const auto* any = std::get_if<FlatMapFunction>(&function)) {
      add<FlatMap>(name, *any, stage(name));
    }
  }

  void add_packing() {
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

  void add_batching() {
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

  void add_batches(std::int64_t batch_size) {
    const BatchStage& function = encoding_.encoder.batch;
    if (const auto* one = std::get_if<BatchFunction>(&function)) {
      add<Batch>(stage_names::kBatch, BatchOptions{.batch_size = batch_size,
                                                   .remainder = encoding_.remainder,
                                                   .function = *one,
                                                   .stage = stage(stage_names::kBatch)});
      return;
    }
    dataset_ =
        generated_batches(std::move(dataset_), {.batch_size = batch_size,
                                                .remainder = encoding_.remainder,
                                                .function = std::get<BatchGenerator>(function),
                                                .stage = stage(stage_names::kBatch)});
    measure(stage_names::kBatch);
  }

  const PipelineData& data_;
  const Encoding& encoding_;
  const PipelineContext& context_;
  const std::shared_ptr<PipelineClock> clock_ = std::make_shared<PipelineClock>();
  std::int64_t most_left_out_ = 0;
  std::unique_ptr<Dataset> dataset_;
};

// Kept by the factory, which is copied: options may be large.
template <class Options>
struct Parts {
  PipelineData data;
  Options options;
};

template <class Options>
std::shared_ptr<const Parts<Options>> checked_parts(PipelineData data, Options options) {
  if (data.leaves.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "a pipeline needs at least one dataset");
  }
  validate(options.task_encoder, options.packing_buffer_size, options.batch_size);
  if (!options.task_encoder.cookers.empty()) {
    // Throws here, not in the worker.
    cook_function(options.task_encoder.cookers, data.leaves, options.task_encoder.cache);
  }
  return std::make_shared<const Parts<Options>>(
      Parts<Options>{std::move(data), std::move(options)});
}

void check_not_negative(std::string_view name, std::int64_t batches) {
  if (batches < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}, it must not be negative; 0 means none", name, batches));
  }
}

}  // namespace

PipelineFactory train_pipeline(PipelineData data, TrainOptions options) {
  if (data.mixing == Mixing::kWeighted && !options.repeat) {
    throw Error(ErrorCode::kInvalidArgument,
                "a blend by weight never ends: repeat must be true (use blend_epochized for epochs "
                "with an end, or virtual_epoch_length)");
  }
  check_not_negative("virtual_epoch_length", options.virtual_epoch_length);
  return [parts = checked_parts(std::move(data), std::move(options))](
             const PipelineContext& context) -> std::unique_ptr<Dataset> {
    const TrainOptions& options = parts->options;
    const Encoding encoding(options);
    Assembly assembly(parts->data, encoding, context);
    TrainOrder train = train_order(parts->data, options, context);
    assembly.add_encoding(std::move(train));
    if (options.virtual_epoch_length > 0) {
      assembly.add_end<Epochize>(options.virtual_epoch_length, options.repeat
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
    assembly.add_encoding({.order = val_order(parts->data, context)});
    if (options.limit.value_or(0) > 0) {
      assembly.add_end<Limit>(*options.limit);
    }
    return assembly.finish();
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
