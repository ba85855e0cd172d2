#include "wrappers/task_encoder.h"

#include "io/error.h"

namespace energon {
namespace {

bool is_given(const SampleStage& stage) { return !std::holds_alternative<std::monostate>(stage); }

void require(bool fits, const char* what) {
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument, what);
  }
}

}  // namespace

void validate(const TaskEncoder& encoder, std::optional<std::int64_t> packing_buffer_size,
              std::optional<std::int64_t> batch_size) {
  const bool packs = packing_buffer_size.has_value();
  require(!is_given(encoder.encode_sample) ||
              (!is_given(encoder.preencode_sample) && !encoder.postencode_sample),
          "encode_sample excludes preencode_sample and postencode_sample: give one or the others");
  require(!packs || (encoder.select_samples_to_pack && encoder.pack_selected_samples),
          "packing_buffer_size needs select_samples_to_pack and pack_selected_samples");
  require(packs || (!encoder.select_samples_to_pack && !encoder.pack_selected_samples),
          "select_samples_to_pack and pack_selected_samples need packing_buffer_size");
  require(!packs || *packing_buffer_size >= 1, "packing_buffer_size must be at least 1");
  require(batch_size || !is_given(encoder.encode_batch) || encoder.batch_group_criterion,
          "encode_batch needs batch_size");
}

}  // namespace energon
