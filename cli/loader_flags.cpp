#include "cli/loader_flags.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "cli/open_dataset.h"
#include "energon/loader/failure_log.h"
#include "energon/order/slice_order.h"
#include "media/tokens/sentencepiece.h"
#include "wrappers/batching/batch.h"
#include "wrappers/recipe/order_pipeline.h"

namespace energon::cli {

// --- Options ---

namespace {

const std::map<std::string, Mode> kModes = {{"train", Mode::kTrain}, {"val", Mode::kVal}};
const std::map<std::string, CheckShards> kChecks = {{"first-read", CheckShards::kAtFirstRead},
                                                    {"opening", CheckShards::kAtOpening}};
const std::map<std::string, VerifyChecksums> kVerifications = {
    {"always", VerifyChecksums::kAlways},
    {"sampled", VerifyChecksums::kSampled},
    {"off", VerifyChecksums::kOff}};

const std::map<std::string, Division> kDivisions = {{"even", Division::kEven},
                                                    {"energon", Division::kEnergon}};

const std::map<std::string, BlendBy> kBlendBys = {{"draw", BlendBy::kDraw},
                                                  {"share", BlendBy::kShare}};

const std::map<std::string, EpochPolicy> kEpochPolicies = {{"strict", EpochPolicy::kStrict},
                                                           {"loop", EpochPolicy::kLoop}};

const std::map<std::string, OnError> kOnErrors = {{"fail", OnError::kFail},
                                                  {"skip", OnError::kSkip}};

// The option takes the names in `values`; the one of `target` is its default. CLI::Transformer
// would also accept their numbers.
template <class Value>
void add_choice(CLI::App& command, const std::string& name, Value& target,
                const std::map<std::string, Value>& values, const std::string& help) {
  std::vector<std::string> names;
  std::string standard;
  names.reserve(values.size());
  for (const auto& [text, value] : values) {
    names.push_back(text);
    if (value == target) {
      standard = text;
    }
  }
  command
      .add_option_function<std::string>(
          name, [&target, &values](const std::string& text) { target = values.at(text); }, help)
      ->default_str(standard)
      ->check(CLI::IsMember(names));
}

void add_layout_flags(CLI::App& command, LoaderFlags& flags) {
  command
      .add_option("--num-workers", flags.num_workers,
                  "Worker processes of this rank; 0: everything in this process")
      ->capture_default_str()
      ->check(at_least(0));
  command.add_option("--world-size", flags.world_size, "Data-parallel ranks")
      ->capture_default_str()
      ->check(at_least(1));
  command.add_option("--rank", flags.rank, "Rank to play")
      ->capture_default_str()
      ->check(at_least(0));
  command
      .add_option(
          "--logical-shards", flags.logical_shards,
          "Parts of the data with their own order, so that it does not depend on ranks and\n"
          "workers; a multiple of --world-size. Default: one for each worker of the job")
      ->check(at_least(1));
  add_choice(command, "--division", flags.division, kDivisions,
             "With --logical-shards: which of them get a sample more; energon for a job that began "
             "without");
  command.add_flag("--uneven", flags.allow_uneven,
                   "Allow --logical-shards that is no multiple of --world-size");
  add_choice(command, "--epoch-policy", flags.epoch_policy, kEpochPolicies,
             "At the end of an epoch: report it, or go on with the next one");
}

void add_order_flags(CLI::App& command, LoaderFlags& flags) {
  command.add_option("--batch-size", flags.batch_size, "Samples a batch")
      ->capture_default_str()
      ->check(at_least(1));
  command
      .add_option("--decode", flags.decode,
                  "Decode the parts by their names; images as this mode says, such as torchrgb "
                  "(docs/media.md)")
      ->expected(0, 1)
      ->default_str("torchrgb");
  command.add_option("--tokenizer", flags.tokenizer,
                     "Make tokens of texts with this model of SentencePiece (.model)");
  command
      .add_option("--tokenize", flags.tokenize,
                  "With --tokenizer: FIELD=TO makes field TO of the text FIELD, FIELD replaces it; "
                  "may be given\nseveral times. Default: txt=tokens")
      ->allow_extra_args(false);
  command.add_flag("--typed", flags.typed,
                   "Make samples of the type and the fields that each dataset.yaml describes");
  command
      .add_option("--shuffle-buffer-size", flags.shuffle_buffer_size,
                  "Samples to draw from; 0 and 1: no buffer")
      ->capture_default_str()
      ->check(at_least(0));
  command
      .add_option("--max-samples-per-sequence", flags.max_samples_per_sequence,
                  "Longest run of neighbours of one shard; default: no limit")
      ->check(at_least(1));
  command
      .add_option(
          "--shuffle-over-epochs", flags.shuffle_over_epochs,
          "Shuffle anew every so many epochs; none: keep the order, -1: draw with replacement")
      ->capture_default_str();
  command
      .add_option("--parallel-slices", flags.parallel_slices,
                  "Slices that are read in turn; default: 16, without shuffling 1")
      ->check(at_least(1));
  add_choice(
      command, "--blend-by", flags.blend_by, kBlendBys,
      "In a blend by weight: draw the dataset of the next sample, or take the one whose share\n"
      "so far is furthest below its weight");
  command.add_option("--seed-offset", flags.seed_offset, "Another order of the same data")
      ->capture_default_str();
}

void add_epoch_flags(CLI::App& command, LoaderFlags& flags) {
  command
      .add_option("--virtual-epoch-length", flags.virtual_epoch_length,
                  "Batches of this rank after which an epoch ends; 0: the data's own end")
      ->capture_default_str()
      ->check(at_least(0));
  command.add_flag("!--no-repeat", flags.repeat,
                   "Do not begin the data again within an epoch: with --virtual-epoch-length the "
                   "last epoch of a passage may be shorter");
  command
      .add_option(
          "--epochs", flags.epochs,
          "Stop after so many epochs, counted from the very first (bench: end a repetition after\n"
          "so many). In train mode without --virtual-epoch-length the pipeline then does not\n"
          "repeat the data: an epoch is one passage over it. Default: train endless, val 1")
      ->check(at_least(1));
}

void add_history_settings(CLI::App& command, LoaderFlags& flags) {
  command
      .add_option("--checkpoint-history", flags.checkpoint_history,
                  "Delivered batches that the loader can go back; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  command
      .add_option("--checkpoint-history-mib", flags.checkpoint_history_mib,
                  "Memory for the states that --checkpoint-history keeps, in MiB")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
}

void add_worker_settings(CLI::App& command, LoaderFlags& flags) {
  command
      .add_option("--timeout", flags.timeout_seconds,
                  "Seconds without progress of a worker that are an error")
      ->capture_default_str()
      ->check(seconds());
  command
      .add_option("--starvation-limit", flags.starvation_seconds,
                  "Seconds that a worker without memory waits while the trainer waits for it")
      ->capture_default_str()
      ->check(seconds());
  command
      .add_option("--prefetch-factor", flags.prefetch_factor,
                  "Batches a worker may be ahead; default: by their bytes")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--prefetch-kib", flags.prefetch_kib,
                  "KiB of batches a worker may be ahead without --prefetch-factor")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 30));
  command
      .add_option("--checkpoint-every-batches", flags.checkpoint_every_batches,
                  "A worker stores its state every so many batches; default: by its size")
      ->check(at_least(1));
  command
      .add_option("--arena-limit-mib", flags.arena_limit_mib,
                  "Shared memory that the batches of a worker may take, in MiB")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--checkpoint-slot-mib", flags.checkpoint_slot_mib,
                  "Largest state that a worker can keep, in MiB; reserved, not used")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
}

void add_reading_settings(CLI::App& command, LoaderFlags& flags) {
  add_choice(
      command, "--check-shards", flags.check_shards, kChecks,
      "When each shard of a prepared dataset is compared with what was prepared [first-read]");
  add_choice(command, "--verify-checksums", flags.verify_checksums, kVerifications,
             "Samples that are compared with their stored checksums");
  command
      .add_option("--max-sample-bytes", flags.max_sample_bytes,
                  "A sample of a tar or a line of a JSONL file with more bytes is an error")
      ->check(at_least(1));
  add_strict_tars(command, flags.has_strict_tars);
  command.add_option("--debug-log", flags.debug_log,
                     "Log what is delivered: a file each for the parent and the workers, such as "
                     "'log-{worker_id}.jsonl'");
  add_cache_dir(command, flags.cache_dir, ShardUse::kRead);
}

void add_failure_flags(CLI::App& command, LoaderFlags& flags) {
  add_choice(command, "--on-error", flags.on_error, kOnErrors,
             "Samples and shards that cannot be used end the run, or are left out");
  command
      .add_option("--tolerance", flags.tolerance,
                  "With --on-error skip: so many failures in a row end the run; 0: never")
      ->capture_default_str()
      ->check(at_least(0));
  command.add_option("--quarantine", flags.quarantine,
                     "File to which what is left out is appended, one JSON object a line");
  command
      .add_option("--exclude", flags.exclude_files,
                  "Leave out what this quarantine file names; may be given several times")
      ->allow_extra_args(false);  // or it would take PATH, too
}

}  // namespace

void add_loader_flags(CLI::App& command, LoaderFlags& flags, PathCount paths) {
  add_path(command, flags.path, paths);
  command
      .add_option("--split", flags.split, "Part of a prepared dataset, or split of a metadataset")
      ->capture_default_str();
  add_choice(command, "--mode", flags.mode, kModes, "Shuffled and endless, or in order and once");
  add_layout_flags(command, flags);
  add_order_flags(command, flags);
  add_epoch_flags(command, flags);
  add_worker_settings(command, flags);
  add_history_settings(command, flags);
  add_reading_settings(command, flags);
  add_failure_flags(command, flags);
}

// --- Data, pipeline and options ---

namespace {

ShuffleOverEpochs parse_shuffle_over_epochs(const std::string& text) {
  if (text == "none") {
    return {.mode = ShuffleOverEpochs::Mode::kNone};
  }
  const auto epochs = parse_number<std::int64_t>(text);
  if (epochs == -1) {
    return {.mode = ShuffleOverEpochs::Mode::kReplacement};
  }
  if (!epochs || *epochs < 1) {
    throw UsageError{fmt::format(
        "--shuffle-over-epochs is '{}', expected none, -1 or a number of epochs of at least 1",
        text)};
  }
  return {.mode = ShuffleOverEpochs::Mode::kEpochs, .epochs = *epochs};
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

// --- Batches ---

namespace {

bool has_names_of(const Sample& sample, const Sample& other) {
  return std::equal(sample.fields.begin(), sample.fields.end(), other.fields.begin(),
                    other.fields.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first; });
}

bool has_field(const Sample& sample, const std::string& name) {
  return std::any_of(sample.fields.begin(), sample.fields.end(),
                     [&](const auto& field) { return field.first == name; });
}

}  // namespace

Mapping list_parts(std::span<Sample> samples) {
  const bool are_alike = std::all_of(samples.begin(), samples.end(), [&](const Sample& sample) {
    return has_names_of(sample, samples.front());
  });
  if (!are_alike) {
    std::vector<std::string> names;
    for (const Sample& sample : samples) {
      for (const auto& [name, value] : sample.fields) {
        if (std::find(names.begin(), names.end(), name) == names.end()) {
          names.push_back(name);
        }
      }
    }
    for (Sample& sample : samples) {
      for (const std::string& name : names) {
        if (!has_field(sample, name)) {
          sample.fields.emplace_back(name, List());
        }
      }
    }
  }
  return list_fields(samples);
}

}  // namespace energon::cli
