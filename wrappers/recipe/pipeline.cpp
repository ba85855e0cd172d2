#include "wrappers/recipe/pipeline.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "wrappers/recipe/assembly.h"
#include "wrappers/recipe/sample_order.h"
#include "wrappers/stages/cook.h"
#include "wrappers/stages/epochize.h"

namespace energon {
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
                fmt::format("{} is {}, it must not be negative; 0 means none", name, value));
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
  validate(options.task_encoder, options.packing_buffer_size, options.batch_size);
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

PipelineFactory train_dataset(const std::string& path, const DataOptions& data,
                              TrainOptions options) {
  return train_pipeline(open_data(path, data), std::move(options));
}

PipelineFactory val_dataset(const std::string& path, const DataOptions& data, ValOptions options) {
  return val_pipeline(open_data(path, data), std::move(options));
}

}  // namespace energon
