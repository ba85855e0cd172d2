#include "wrappers/recipe/task_encoder.h"

#include "io/error.h"

namespace energon {
namespace {

bool is_given(const SampleStage& stage) { return !std::holds_alternative<std::monostate>(stage); }

// For stages with alternative kinds of functions.
template <class Stage>
bool has_function(const Stage& stage) {
  return std::visit([](const auto& function) { return static_cast<bool>(function); }, stage);
}

void require(bool fits, const char* what) {
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument, what);
  }
}

}  // namespace

void validate(const TaskEncoder& encoder, std::optional<std::int64_t> packing_buffer_size,
              std::optional<std::int64_t> batch_size, std::optional<std::int64_t> sort_pool_size) {
  if (encoder.tokenizer) {
    validate(*encoder.tokenizer);
  }
  const bool packs = packing_buffer_size.has_value();
  require(!is_given(encoder.encode_sample) ||
              (!is_given(encoder.preencode_sample) && !encoder.postencode_sample),
          "encode_sample excludes preencode_sample and postencode_sample: set one or the others");
  require(!encoder.encode_samples ||
              (!is_given(encoder.encode_sample) && !is_given(encoder.preencode_sample) &&
               !encoder.postencode_sample),
          "encode_samples excludes encode_sample, preencode_sample and postencode_sample: set one "
          "or the others");
  const bool sorts = sort_pool_size.has_value();
  require(!sorts || encoder.cost,
          "sort_pool_size needs a function that returns the cost of a sample: set "
          "TaskEncoder::cost (in Python, override sample_cost)");
  require(sorts || !encoder.cost,
          "TaskEncoder::cost (in Python, sample_cost) needs a pool of samples to sort: set "
          "sort_pool_size");
  require(!sorts || *sort_pool_size >= 1, "sort_pool_size must be at least 1");
  const bool selects = has_function(encoder.select_samples_to_pack);
  const bool makes_packs = has_function(encoder.pack_selected_samples);
  require(!packs || (selects && makes_packs),
          "packing_buffer_size needs select_samples_to_pack and pack_selected_samples");
  require(packs || (!selects && !makes_packs),
          "select_samples_to_pack and pack_selected_samples need packing_buffer_size");
  require(!encoder.cut_selected_sample ||
              std::holds_alternative<SelectPartsFunction>(encoder.select_samples_to_pack),
          "cut_selected_sample needs a select_samples_to_pack that selects parts of samples");
  require(has_function(encoder.batch), "batch must be a function");
  require(!encoder.batch_group_criterion || std::holds_alternative<BatchFunction>(encoder.batch),
          "batch_group_criterion needs a batch function that makes one batch: a generator has no "
          "groups");
  require(!packs || *packing_buffer_size >= 1, "packing_buffer_size must be at least 1");
  require(batch_size || !is_given(encoder.encode_batch) || encoder.batch_group_criterion,
          "encode_batch needs batch_size");
}

}  // namespace energon
