// Puts the stages of a pipeline around each other, from reading to what watches the whole.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "energon/stage/dataset.h"
#include "energon/stage/failure.h"
#include "energon/stage/stage_guard.h"
#include "wrappers/batching/batch.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/recipe/sample_order.h"
#include "wrappers/recipe/task_encoder.h"
#include "wrappers/stages/epochize.h"
#include "wrappers/stages/map.h"
#include "wrappers/watch/measured.h"
#include "wrappers/watch/pipeline_clock.h"
#include "wrappers/watch/watchdog.h"

namespace energon {

/// The options that training and validation share: those of the stages after reading. Refers to the
/// options that it is made from.
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

/// Each add_…() puts stages around those added before.
class Assembly {
 public:
  /// All arguments must outlive the assembly.
  Assembly(const PipelineData& data, const Encoding& encoding, const PipelineContext& context)
      : data_(data), encoding_(encoding), context_(context) {}

  /// The stages from reading to the encoded batch. Comes first.
  void add_encoding(SampleOrder order);

  /// Cuts the stream into epochs of this many batches of the rank.
  void add_epochs(std::int64_t length_of_rank, Epochize::AtEnd at_end);
  /// Ends each epoch after this many batches of the rank; the next one starts over.
  void add_limit(std::int64_t length_of_rank);

  /// The whole pipeline, with what watches it. Comes last.
  std::unique_ptr<Dataset> finish();

 private:
  StageOptions stage(std::string_view name) const;
  std::int64_t share_of_stream(std::int64_t length_of_rank) const;
  template <class Stage, class... Arguments>
  void add(std::string_view name, Arguments&&... arguments);
  Measured& measure(std::string_view name, CountBytes count_bytes = CountBytes::kNo);
  ReplaceFunction add_reading(SampleOrder order);
  void add_cooking(ReplaceFunction replace);
  void add_function(std::string_view name, const SampleStage& function);
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

}  // namespace energon
