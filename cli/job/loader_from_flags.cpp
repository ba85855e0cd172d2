#include "cli/job/loader_from_flags.h"

#include <charconv>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "cli/job/open_dataset.h"
#include "cli/job/strict_tars.h"
#include "cli/show/list_parts.h"
#include "cli/show/outcome.h"
#include "energon/loader/failure_log.h"
#include "energon/order/slice_order.h"
#include "energon/stage/failure.h"
#include "media/tokens/sentencepiece.h"
#include "wrappers/recipe/order_pipeline.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::cli {
namespace {

ShuffleOverEpochs parse_shuffle_over_epochs(const std::string& text) {
  if (text == "none") {
    return {.mode = ShuffleOverEpochs::Mode::kNone};
  }
  std::int64_t epochs = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, epochs);
  if (error == std::errc() && stop == end && epochs == -1) {
    return {.mode = ShuffleOverEpochs::Mode::kReplacement};
  }
  if (error != std::errc() || stop != end || epochs < 1) {
    throw UsageError{fmt::format(
        "--shuffle-over-epochs is '{}', expected none, -1 or a number of epochs of at least 1",
        text)};
  }
  return {.mode = ShuffleOverEpochs::Mode::kEpochs, .epochs = epochs};
}

// A validation stream is not shuffled, mixed or repeated, so flags for that are refused.
void refuse_train_flags(const LoaderFlags& flags) {
  const bool contradicts =
      flags.shuffle_buffer_size > 1 || flags.max_samples_per_sequence.has_value() ||
      flags.parallel_slices.value_or(1) != 1 || flags.blend_by != BlendBy::kDraw ||
      flags.virtual_epoch_length != 0 || !flags.repeat ||
      (flags.shuffle_over_epochs != "1" && flags.shuffle_over_epochs != "none");
  if (contradicts) {
    throw UsageError{
        "--mode val reads the data in order, once: --shuffle-buffer-size, "
        "--max-samples-per-sequence, --shuffle-over-epochs, --parallel-slices, --blend-by, "
        "--virtual-epoch-length and --no-repeat are for --mode train"};
  }
}

void check_mode(const LoaderFlags& flags, const ShuffleOverEpochs& shuffle) {
  if (flags.mode == Mode::kVal) {
    refuse_train_flags(flags);
  } else if (flags.epochs && flags.virtual_epoch_length == 0 &&
             shuffle.mode == ShuffleOverEpochs::Mode::kReplacement) {
    throw UsageError{
        "with --shuffle-over-epochs -1 an epoch never ends: --epochs needs --virtual-epoch-length"};
  }
}

ErrorPolicies error_policies(const LoaderFlags& flags) {
  return {.standard = {.action = flags.on_error == OnError::kSkip ? FailureAction::kSkip
                                                                  : FailureAction::kFail,
                       .tolerance = flags.tolerance}};
}

TaskEncoder task_encoder(const LoaderFlags& flags) {
  TaskEncoder encoder{.batch = list_parts};
  if (flags.decode) {
    encoder.decoder = SampleDecoderOptions{.image = *flags.decode, .av = AvMode::kTensors};
  }
  encoder.tokenizer = tokenize_options(flags);
  return encoder;
}

ValOptions val_options(const LoaderFlags& flags) {
  return {.task_encoder = task_encoder(flags),
          .batch_size = flags.batch_size,
          .errors = error_policies(flags)};
}

TrainOptions train_options(const LoaderFlags& flags, const ShuffleOverEpochs& shuffle,
                           Mixing mixing) {
  const bool is_ordered = shuffle.mode == ShuffleOverEpochs::Mode::kNone;
  TrainOptions options;
  options.task_encoder = task_encoder(flags);
  options.batch_size = flags.batch_size;
  options.errors = error_policies(flags);
  options.shuffle_buffer_size = flags.shuffle_buffer_size;
  options.max_samples_per_sequence = flags.max_samples_per_sequence;
  options.shuffle_over_epochs = shuffle;
  options.parallel_slices =
      flags.parallel_slices.value_or(is_ordered ? 1 : options.parallel_slices);
  options.blend_by = flags.blend_by;
  options.virtual_epoch_length = flags.virtual_epoch_length;
  options.repeat = flags.repeat && (!flags.epochs || flags.virtual_epoch_length > 0);
  if (mixing == Mixing::kWeighted && !options.repeat) {
    throw UsageError{flags.repeat ? "a blend by weight never ends: --epochs needs "
                                    "--virtual-epoch-length, or use --limit"
                                  : "a blend by weight never ends: --no-repeat is for others"};
  }
  return options;
}

// Calls `make(data, options)` with the options of the mode. `data`: absent: opened after the flags
// were checked.
template <class Make>
PipelineFactory with_options(const LoaderFlags& flags, std::optional<PipelineData> data,
                             const Make& make) {
  const ShuffleOverEpochs shuffle = parse_shuffle_over_epochs(flags.shuffle_over_epochs);
  check_mode(flags, shuffle);
  PipelineData opened = data ? std::move(*data) : open_loader_data(flags);
  if (flags.mode == Mode::kVal) {
    return make(std::move(opened), val_options(flags));
  }
  TrainOptions options = train_options(flags, shuffle, opened.mixing);
  return make(std::move(opened), std::move(options));
}

TokenField token_field(const std::string& text) {
  const std::size_t equals = text.find('=');
  TokenField field{.from = text.substr(0, equals),
                   .to = equals == std::string::npos ? text : text.substr(equals + 1)};
  if (field.from.empty() || field.to.empty()) {
    throw UsageError{fmt::format("--tokenize is '{}', expected FIELD or FIELD=TO", text)};
  }
  return field;
}

}  // namespace

std::optional<TokenizeOptions> tokenize_options(const LoaderFlags& flags) {
  if (flags.tokenizer.empty()) {
    if (!flags.tokenize.empty()) {
      throw UsageError{"--tokenize needs --tokenizer, the file of a model"};
    }
    return std::nullopt;
  }
  TokenizeOptions options{.tokenizer = open_sentencepiece(flags.tokenizer)};
  if (!flags.tokenize.empty()) {
    options.fields.clear();
    for (const std::string& text : flags.tokenize) {
      options.fields.push_back(token_field(text));
    }
  }
  return options;
}

DataOptions data_options(const LoaderFlags& flags) {
  return {.split = flags.split,
          .open = {.exclude_files = flags.exclude_files,
                   .broken_shards =
                       flags.on_error == OnError::kSkip ? BrokenShards::kSkip : BrokenShards::kFail,
                   .strictness = strictness(flags.has_strict_tars),
                   .cache_dir = flags.cache_dir},
          .check_shards = flags.check_shards,
          .verify_checksums = flags.verify_checksums,
          .max_sample_bytes = flags.max_sample_bytes,
          .typed = flags.typed};
}

OpenOptions key_lookup_options(const LoaderFlags& flags) {
  return {.strictness = strictness(flags.has_strict_tars),
          .needs_checksums = flags.verify_checksums != VerifyChecksums::kOff,
          .cache_dir = flags.cache_dir};
}

PipelineData open_loader_data(const LoaderFlags& flags) {
  PipelineData data = open_pipeline_data(flags.path, data_options(flags));
  QuarantineWriter writer(flags.quarantine);
  for (const FailureReport& report : data.broken) {
    writer.append(report);
  }
  return data;
}

PipelineFactory make_pipeline(const LoaderFlags& flags) {
  return with_options(flags, std::nullopt, [](PipelineData data, auto options) {
    if constexpr (std::is_same_v<decltype(options), ValOptions>) {
      return val_pipeline(std::move(data), std::move(options));
    } else {
      return train_pipeline(std::move(data), std::move(options));
    }
  });
}

PipelineFactory make_order_pipeline(const LoaderFlags& flags, PipelineData data,
                                    const Config& config) {
  return with_options(flags, std::move(data), [&](PipelineData of, auto options) {
    return order_pipeline(std::move(of), std::move(options), config);
  });
}

PipelineFactory make_replay_pipeline(const LoaderFlags& flags, PipelineData data,
                                     const Config& config) {
  return with_options(flags, std::move(data), [&](PipelineData of, auto options) {
    return replay_pipeline(std::move(of), std::move(options), config);
  });
}

LoaderOptions loader_options(const LoaderFlags& flags) {
  if (flags.rank >= flags.world_size) {
    throw UsageError{
        fmt::format("--rank {} does not exist: with --world-size {} ranks go from 0 to {}",
                    flags.rank, flags.world_size, flags.world_size - 1)};
  }
  if (flags.epoch_policy == EpochPolicy::kLoop && (flags.epochs || flags.mode == Mode::kVal)) {
    throw UsageError{
        "with --epoch-policy loop the epochs of a rank have no end: use --mode train and, instead "
        "of --epochs, count batches"};
  }
  LoaderOptions options;
  options.worker_config = {.rank = flags.rank,
                           .world_size = flags.world_size,
                           .num_workers = flags.num_workers,
                           .seed_offset = flags.seed_offset,
                           .logical_shards = flags.logical_shards,
                           .division = flags.division,
                           .allow_uneven = flags.allow_uneven};
  options.epoch_policy = flags.epoch_policy;
  options.prefetch_factor = flags.prefetch_factor;
  options.prefetch_bytes = flags.prefetch_kib << 10;
  options.checkpoint_every_batches = flags.checkpoint_every_batches;
  options.checkpoint_history = flags.checkpoint_history;
  options.checkpoint_history_bytes = flags.checkpoint_history_mib << 20;
  options.arena_limit_bytes = flags.arena_limit_mib << 20;
  options.checkpoint_slot_bytes = flags.checkpoint_slot_mib << 20;
  options.debug_log_path = flags.debug_log;
  options.quarantine_file = flags.quarantine;
  options.starvation_limit =
      std::chrono::milliseconds(static_cast<std::int64_t>(flags.starvation_seconds * 1000));
  options.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(flags.timeout_seconds * 1000));
  return options;
}

std::optional<std::int64_t> epoch_limit(const LoaderFlags& flags) {
  if (!flags.epochs && flags.mode == Mode::kVal) {
    return 1;
  }
  return flags.epochs;
}

}  // namespace energon::cli
