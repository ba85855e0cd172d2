#include "wrappers/recipe/assembly.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "energon/order/worker_config.h"
#include "energon/sample/restore_key.h"
#include "wrappers/batching/batch_generator.h"
#include "wrappers/batching/group_batch.h"
#include "wrappers/batching/packing.h"
#include "wrappers/stages/cook.h"
#include "wrappers/stages/decode.h"
#include "wrappers/stages/flat_map.h"
#include "wrappers/stages/limit.h"
#include "wrappers/stages/read_samples.h"
#include "wrappers/stages/typed_samples.h"
#include "wrappers/watch/log_sample.h"

namespace energon {

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
  add_function(stage_names::kPreencodeSample, encoder.preencode_sample);
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
  return share_of(length_of_rank, context_.stream, context_.config.stream_count());
}

std::unique_ptr<Dataset> Assembly::finish() {
  if (!encoding_.log_path.empty()) {
    dataset_ = std::make_unique<LogSample>(std::move(dataset_), encoding_.log_path, context_.config,
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

StageOptions Assembly::stage(std::string_view name) const {
  return {.name = std::string(name),
          .seed = worker_seed(0, context_.config.seed_offset),
          .memory = context_.made,
          .policy = encoding_.errors.of(name),
          .most_left_out = most_left_out_,
          .monitor = context_.monitor};
}

Measured& Assembly::measure(std::string_view name, CountBytes count_bytes) {
  auto measured =
      std::make_unique<Measured>(std::move(dataset_), name, clock_, context_.monitor, count_bytes);
  Measured& stage = *measured;
  dataset_ = std::move(measured);
  return stage;
}

// Returns the function by which the next stage replaces a sample that it leaves out; null if there
// is only one leaf, whose next sample comes anyway.
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
  Measured* const measured = &measure(stage_names::kRead, CountBytes::kYes);
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

// Decoding and cooking are one stage, because only the one after reading can replace samples.
void Assembly::add_cooking(ReplaceFunction replace) {
  const TaskEncoder& encoder = encoding_.encoder;
  const bool is_typed =
      std::any_of(data_.leaves.begin(), data_.leaves.end(),
                  [](const PipelineLeaf& leaf) { return leaf.typed.has_value(); });
  if (!is_typed && !encoder.decoder && encoder.cookers.empty()) {
    return;
  }
  const std::string_view name = encoder.cookers.empty() ? stage_names::kDecode : stage_names::kCook;
  MapFunction function;
  if (!encoder.cookers.empty()) {
    function = cook_function(encoder.cookers, data_.leaves, encoder.cache);
  }
  if (is_typed) {
    function = typed_samples(encoder.decoder.value_or(SampleDecoderOptions()), data_.leaves,
                             std::move(function));
  } else if (encoder.decoder) {
    function = decode_then(*encoder.decoder, std::move(function));
  }
  add<Map>(name, std::move(function), stage(name), std::move(replace));
}

void Assembly::add_function(std::string_view name, const SampleStage& function) {
  if (const auto* one = std::get_if<MapFunction>(&function)) {
    add<Map>(name, *one, stage(name));
  } else if (const auto* any = std::get_if<FlatMapFunction>(&function)) {
    add<FlatMap>(name, *any, stage(name));
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

}  // namespace energon
