#include "cli/loader_flags.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/open_dataset.h"
#include "energon/loader/failure_log.h"
#include "energon/read/webdataset.h"
#include "energon/stage/failure.h"
#include "io/error.h"
#include "io/overloaded.h"
#include "io/recipe/shuffle_over_epochs.h"
#include "media/tokens/tokenizer.h"
#include "wrappers/batching/batch.h"
#include "wrappers/recipe/order_pipeline.h"

namespace energon::cli {

// --- Options ---

namespace {

// The longest line of --help, not counting the column of names.
constexpr std::size_t kHelpColumns = 88;

std::string wrapped(const std::string& text) {
  std::string lines;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const bool fits_line = column + end - begin < kHelpColumns;
    if (column > 0) {
      lines += fits_line ? ' ' : '\n';
    }
    column = column > 0 && fits_line ? column + 1 + end - begin : end - begin;
    lines += text.substr(begin, end - begin);
    begin = end + 1;
  }
  return lines;
}

// The help text of an option, with the names of flags. Starts with "Do not …" for a flag that turns
// something off.
std::string help_of(const OptionRow& row, bool turns_off) {
  std::string sentence = with_option_names(row.sentence, OptionCaller::kCommandLine);
  if (turns_off) {
    sentence.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(sentence[0])));
    sentence.insert(0, "Do not ");
  }
  return wrapped(sentence);
}

std::string value_name(const OptionMember& member) {
  return std::visit(
      Overloaded{[](const bool*) -> std::string { return ""; },
                 [](const int*) -> std::string { return "INT"; },
                 [](const std::int64_t*) -> std::string { return "INT"; },
                 [](const std::uint64_t*) -> std::string { return "BYTES"; },
                 [](const std::optional<int>*) -> std::string { return "INT"; },
                 [](const std::optional<std::int64_t>*) -> std::string { return "INT"; },
                 [](const std::string*) -> std::string { return "TEXT"; },
                 [](const std::optional<std::string>*) -> std::string { return "TEXT"; },
                 [](const std::vector<std::string>*) -> std::string { return "TEXT"; },
                 [](const std::chrono::milliseconds*) -> std::string { return "SECONDS"; },
                 [](const ShuffleOverEpochs*) -> std::string { return "INT"; },
                 [](const ChoiceMember& choice) {
                   return fmt::format("{{{}}}", fmt::join(choice.names, ","));
                 }},
      member);
}

// Adds the flag of a row. set_option() parses its values, as everywhere.
void add_row(CLI::App& command, LoaderFlags& flags, const OptionRow& row) {
  const std::string name = spelled(row, OptionCaller::kCommandLine);
  const OptionMember member = row.member(flags.options);
  const std::string group(heading(row.group));
  if (std::holds_alternative<bool*>(member)) {
    const bool turns_off = row.standard == "true";
    command
        .add_flag_callback(
            name,
            [&flags, &row, turns_off] {
              *std::get<bool*>(row.member(flags.options)) = !turns_off;
              flags.given.push_back(&row);
            },
            help_of(row, turns_off))
        ->group(group);
    return;
  }
  const auto set = [&flags, &row, name](const std::vector<std::string>& texts) {
    flags.given.push_back(&row);
    for (const std::string& text : texts) {
      if (!set_option(flags.options, row, text)) {
        throw CLI::ValidationError(
            name, fmt::format("expected {}, found '{}'", expected_value(row), printable(text)));
      }
    }
  };
  CLI::Option* const option =
      command.add_option_function<std::vector<std::string>>(name, set, help_of(row, false));
  option->type_name(value_name(member))->group(group)->allow_extra_args(false);
  if (!std::holds_alternative<std::vector<std::string>*>(member)) {
    option->expected(1);
  }
  if (const std::string standard = option_value(flags.options, row); standard != "none") {
    option->default_str(standard);
  }
}

// Adds the options that are not in the table.
void add_own_flags(CLI::App& command, LoaderFlags& flags, OptionGroup after) {
  const std::string group(heading(after));
  if (after == OptionGroup::kData) {
    command
        .add_option_function<std::string>(
            "--mode",
            [&flags](const std::string& mode) {
              flags.mode = mode == "val" ? Mode::kVal : Mode::kTrain;
            },
            "Read shuffled and endlessly (train), or once and in order (val)")
        ->default_str("train")
        ->check(CLI::IsMember({"train", "val"}))
        ->group(group);
    command
        .add_option("--decode", flags.decode,
                    "Decode parts by their extensions; images in this mode, such as torchrgb "
                    "(docs/media.md)")
        ->expected(0, 1)
        ->default_str("torchrgb")
        ->group(group);
    command
        .add_option("--tokenizer", flags.tokenizer,
                    "Tokenize text with this SentencePiece model (.model)")
        ->group(group);
    command
        .add_option("--tokenize", flags.tokenize,
                    "With --tokenizer: FIELD=TO stores the tokens of FIELD in TO, FIELD replaces\n"
                    "the text; may be given several times [default: txt=tokens]")
        ->allow_extra_args(false)
        ->group(group);
    add_strict_tars(command, flags.has_strict_tars);
    command.get_option("--strict-tars")->group(group);
  } else if (after == OptionGroup::kEpochs) {
    command
        .add_option("--epochs", flags.epochs,
                    "Stop after this many epochs, counted from the start of the job (bench: end\n"
                    "a repetition after this many). In train mode without --virtual-epoch-length,\n"
                    "the pipeline then does not repeat the data: an epoch is one pass over it\n"
                    "[default: endless for train, 1 for val]")
        ->check(at_least(1))
        ->group(group);
  }
}

}  // namespace

bool LoaderFlags::is_given(std::string_view name) const {
  return std::any_of(given.begin(), given.end(),
                     [&](const OptionRow* row) { return row->name == name; });
}

void add_loader_flags(CLI::App& command, LoaderFlags& flags, PathCount paths) {
  add_path(command, flags.path, paths);
  const std::span<const OptionRow> rows = option_rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!spelled(rows[i], OptionCaller::kCommandLine).empty()) {
      add_row(command, flags, rows[i]);
    }
    if (i + 1 == rows.size() || rows[i + 1].group != rows[i].group) {
      add_own_flags(command, flags, rows[i].group);
    }
  }
}

// --- Data, pipeline and options ---

namespace {

// A validation stream is not shuffled, mixed or repeated, so flags for that are refused.
void refuse_train_flags(const LoaderFlags& flags) {
  std::vector<std::string> refused;
  for (const OptionRow* const row : flags.given) {
    if (!fits(*row, OptionUse::kVal)) {
      refused.push_back(spelled(*row, OptionCaller::kCommandLine));
    }
  }
  if (!refused.empty()) {
    throw UsageError{
        fmt::format("--mode val reads the data once and in order: {} {} only for --mode train",
                    fmt::join(refused, ", "), refused.size() == 1 ? "is" : "are")};
  }
}

void check_mode(const LoaderFlags& flags) {
  const TrainOptions& train = flags.options.train;
  if (!train.batch_size) {
    throw UsageError{"--batch-size: expected a whole number of at least 1, found 'none'"};
  }
  if (flags.mode == Mode::kVal) {
    refuse_train_flags(flags);
  } else if (flags.epochs && train.virtual_epoch_length == 0 &&
             train.shuffle_over_epochs.mode == ShuffleOverEpochs::Mode::kReplacement) {
    throw UsageError{
        "with --shuffle-over-epochs -1 an epoch never ends: --epochs needs --virtual-epoch-length"};
  }
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
  ValOptions options = val_options_of(flags.options);
  options.task_encoder = task_encoder(flags);
  return options;
}

TrainOptions train_options(const LoaderFlags& flags, Mixing mixing) {
  TrainOptions options = flags.options.train;
  options.task_encoder = task_encoder(flags);
  if (options.shuffle_over_epochs.mode == ShuffleOverEpochs::Mode::kNone &&
      !flags.is_given("parallel_slices")) {
    options.parallel_slices = 1;
  }
  options.repeat = options.repeat && (!flags.epochs || options.virtual_epoch_length > 0);
  if (mixing == Mixing::kWeighted && !options.repeat) {
    throw UsageError{flags.options.train.repeat ? "a blend by weight never ends: --epochs needs "
                                                  "--virtual-epoch-length, or use --limit"
                                                : "a blend by weight never ends: omit --no-repeat"};
  }
  return options;
}

// Calls `make(data, options)` with the options of the mode. Without `data`, opens it after checking
// the flags.
template <class Make>
PipelineFactory with_options(const LoaderFlags& flags, std::optional<PipelineData> data,
                             const Make& make) {
  check_mode(flags);
  PipelineData opened = data ? std::move(*data) : open_loader_data(flags);
  if (flags.mode == Mode::kVal) {
    return make(std::move(opened), val_options(flags));
  }
  TrainOptions options = train_options(flags, opened.mixing);
  return make(std::move(opened), std::move(options));
}

TokenField token_field(const std::string& text) {
  const std::size_t equals = text.find('=');
  TokenField field{.from = text.substr(0, equals),
                   .to = equals == std::string::npos ? text : text.substr(equals + 1)};
  if (field.from.empty() || field.to.empty()) {
    throw UsageError{fmt::format("--tokenize: expected FIELD or FIELD=TO, found '{}'", text)};
  }
  return field;
}

}  // namespace

std::optional<TokenizeOptions> tokenize_options(const LoaderFlags& flags) {
  if (flags.tokenizer.empty()) {
    if (!flags.tokenize.empty()) {
      throw UsageError{"--tokenize needs --tokenizer, a SentencePiece model"};
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
  DataOptions options = flags.options.data;
  const bool skips = flags.options.train.errors.standard.action == FailureAction::kSkip;
  options.open.broken_shards = skips ? BrokenShards::kSkip : BrokenShards::kFail;
  options.open.strictness = strictness(flags.has_strict_tars);
  return options;
}

OpenOptions key_lookup_options(const LoaderFlags& flags) {
  return {.strictness = strictness(flags.has_strict_tars),
          .needs_checksums = flags.options.data.verify_checksums != VerifyChecksums::kOff,
          .cache_dir = flags.options.data.open.cache_dir};
}

PipelineData open_loader_data(const LoaderFlags& flags) {
  PipelineData data = open_pipeline_data(flags.path, data_options(flags));
  QuarantineWriter writer(flags.options.loader.quarantine_file);
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
  const LoaderOptions& options = flags.options.loader;
  const WorkerConfig& config = options.worker_config;
  if (config.rank >= config.world_size) {
    throw UsageError{
        fmt::format("--rank {} does not exist: with --world-size {} ranks go from 0 to {}",
                    config.rank, config.world_size, config.world_size - 1)};
  }
  if (options.epoch_policy == EpochPolicy::kLoop && (flags.epochs || flags.mode == Mode::kVal)) {
    throw UsageError{
        "with --epoch-policy loop the epochs of a rank never end: use --mode train, and count "
        "batches instead of --epochs"};
  }
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
