// The options that run, get, bench, which-step and which-keys share: data, pipeline and loader.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/flags.h"
#include "energon/order/worker_config.h"
#include "energon/read/webdataset.h"
#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/stage/failure.h"
#include "energon/state/savable.h"
#include "energon/worker/loader_options.h"
#include "io/dataset/dataset_folder.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/stages/tokenize.h"

namespace energon::cli {

enum class Mode { kTrain, kVal };
enum class OnError { kFail, kSkip };

/// Values as on the command line, with the defaults that --help shows.
struct LoaderFlags {
  std::string path = {};
  std::string split = "train";
  Mode mode = Mode::kTrain;

  int num_workers = 0;
  int world_size = 1;
  int rank = 0;
  std::int64_t seed_offset = 0;
  std::optional<int> logical_shards = std::nullopt;
  Division division = Division::kEven;
  bool allow_uneven = false;
  EpochPolicy epoch_policy = EpochPolicy::kStrict;

  /// Mode of images when parts are decoded; absent: parts are delivered as they are.
  std::optional<std::string> decode = std::nullopt;
  std::string tokenizer = {};              ///< a model of SentencePiece; empty: no tokens
  std::vector<std::string> tokenize = {};  ///< FIELD or FIELD=TO; empty: txt=tokens
  bool typed = false;                      ///< samples as dataset.yaml describes them
  std::int64_t batch_size = 1;
  std::int64_t shuffle_buffer_size = 0;
  std::optional<std::int64_t> max_samples_per_sequence = std::nullopt;
  std::string shuffle_over_epochs = "1";  ///< "none", a number of epochs, or "-1"
  std::optional<std::int64_t> parallel_slices = std::nullopt;
  BlendBy blend_by = BlendBy::kDraw;
  std::int64_t virtual_epoch_length = 0;
  bool repeat = true;  ///< repeat the data within an epoch
  std::optional<std::int64_t> epochs = std::nullopt;

  double timeout_seconds = 60;
  double starvation_seconds = 5;
  std::optional<int> prefetch_factor = std::nullopt;
  std::uint64_t prefetch_kib = LoaderOptions().prefetch_bytes >> 10;
  std::uint64_t arena_limit_mib = LoaderOptions().arena_limit_bytes >> 20;
  std::uint64_t checkpoint_slot_mib = LoaderOptions().checkpoint_slot_bytes >> 20;
  std::optional<std::int64_t> checkpoint_every_batches = std::nullopt;
  std::int64_t checkpoint_history = LoaderOptions().checkpoint_history;
  std::uint64_t checkpoint_history_mib = LoaderOptions().checkpoint_history_bytes >> 20;
  CheckShards check_shards = DataOptions{}.check_shards;
  VerifyChecksums verify_checksums = VerifyChecksums::kAlways;
  std::uint64_t max_sample_bytes = DataOptions{}.max_sample_bytes;
  bool has_strict_tars = false;
  std::optional<std::string> cache_dir = std::nullopt;
  std::string debug_log = {};

  OnError on_error = OnError::kFail;
  std::int64_t tolerance = ErrorPolicy().tolerance;
  std::string quarantine = {};
  std::vector<std::string> exclude_files = {};
};

/// Declares PATH and the options above. `flags` must live as long as `command`.
void add_loader_flags(CLI::App& command, LoaderFlags& flags, PathCount paths);

// --- The data, pipeline and options of a loader, as the flags describe them ---

/// How to open the data, according to the flags.
DataOptions data_options(const LoaderFlags& flags);

/// What tokens are made of, according to the flags; nothing without a tokenizer. Throws Error as
/// open_sentencepiece(), UsageError for a field that is none.
std::optional<TokenizeOptions> tokenize_options(const LoaderFlags& flags);

/// How to open the data to look up single samples, according to the flags. Nothing is left out.
OpenOptions key_lookup_options(const LoaderFlags& flags);

/// Opens the data; broken shards go to the quarantine file. Throws Error as open_split(),
/// UsageError if options contradict each other.
PipelineFactory make_pipeline(const LoaderFlags& flags);

/// Opens the data only; broken shards go to the quarantine file.
PipelineData open_loader_data(const LoaderFlags& flags);

/// A pipeline in the order that the flags describe, with the stages of a saved state's `config`; it
/// reads no data (wrappers/recipe/order_pipeline.h).
PipelineFactory make_order_pipeline(const LoaderFlags& flags, PipelineData data,
                                    const Config& config);
/// The same, but samples are read and decoded, and those that fail are left out.
PipelineFactory make_replay_pipeline(const LoaderFlags& flags, PipelineData data,
                                     const Config& config);

/// Throws UsageError if there is no such rank, or if the flags count epochs but an epoch never
/// ends.
LoaderOptions loader_options(const LoaderFlags& flags);

/// The number of epochs after which the stream ends; absent: never.
std::optional<std::int64_t> epoch_limit(const LoaderFlags& flags);

/// Batches samples whose parts are not known in advance: like list_fields(), but a sample may lack
/// a part that another one has; an empty list takes its place.
Mapping list_parts(std::span<Sample> samples);

}  // namespace energon::cli
