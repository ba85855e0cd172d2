// The options that run, get, bench, which-step and which-keys share: data, pipeline and loader.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/flags.h"
#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/state/savable.h"
#include "energon/worker/loader_options.h"
#include "io/dataset/dataset_folder.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/recipe/options.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/stages/tokenize.h"

namespace energon::cli {

enum class Mode { kTrain, kVal };
/// The options on the command line; the others have the defaults that --help shows.
struct LoaderFlags {
  /// Whether the option with this name was on the command line.
  bool is_given(std::string_view name) const;

  std::string path = {};
  Mode mode = Mode::kTrain;
  /// Options from the table (wrappers/recipe/options.h).
  AllOptions options = {.train = {.batch_size = 1}};
  std::vector<const OptionRow*> given = {};

  // Options that only the program has.
  /// Image mode for decoding. Unset means that parts are delivered as they are.
  std::optional<std::string> decode = std::nullopt;
  std::string tokenizer = {};              ///< a SentencePiece model; if empty, no tokens
  std::vector<std::string> tokenize = {};  ///< FIELD or FIELD=TO; if empty, txt=tokens
  std::optional<std::int64_t> epochs = std::nullopt;
  bool has_strict_tars = false;
};

/// Declares PATH, a flag for each row of the table of options, and the options that only the
/// program has. `flags` must live as long as `command`.
void add_loader_flags(CLI::App& command, LoaderFlags& flags, PathCount paths);

// --- The data, pipeline and options of a loader, as the flags describe them ---

/// How to open the data, according to the flags.
DataOptions data_options(const LoaderFlags& flags);

/// The tokenizer and its fields, according to the flags. Returns nullopt without a tokenizer.
/// Throws Error as open_sentencepiece(), UsageError for an invalid field.
std::optional<TokenizeOptions> tokenize_options(const LoaderFlags& flags);

/// How to open the data to look up single samples, according to the flags. No sample is excluded.
OpenOptions key_lookup_options(const LoaderFlags& flags);

/// Opens the data; broken shards go to the quarantine file. Throws Error as open_split(),
/// UsageError if options contradict each other.
PipelineFactory make_pipeline(const LoaderFlags& flags);

/// Opens the data only; broken shards go to the quarantine file.
PipelineData open_loader_data(const LoaderFlags& flags);

/// A pipeline in the order that the flags describe, with the stages of a saved state's `config`.
/// Reads no data (wrappers/recipe/order_pipeline.h).
PipelineFactory make_order_pipeline(const LoaderFlags& flags, PipelineData data,
                                    const Config& config);
/// The same, but samples are read and decoded, and those that fail are left out.
PipelineFactory make_replay_pipeline(const LoaderFlags& flags, PipelineData data,
                                     const Config& config);

/// Throws UsageError if the rank does not exist, or if the flags count epochs but an epoch never
/// ends.
LoaderOptions loader_options(const LoaderFlags& flags);

/// The number of epochs after which the stream ends; nullopt means never.
std::optional<std::int64_t> epoch_limit(const LoaderFlags& flags);

/// Batches samples whose parts are not known in advance. Like list_fields(), but if a sample lacks
/// a part that another one has, an empty list takes its place.
Mapping list_parts(std::span<Sample> samples);

}  // namespace energon::cli
