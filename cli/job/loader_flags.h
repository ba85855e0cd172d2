// The options that dump, get, bench, which-step and which-keys share: data, pipeline and loader.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/job/path_option.h"
#include "energon/order/worker_config.h"
#include "energon/read/webdataset.h"
#include "energon/stage/failure.h"
#include "energon/worker/loader_options.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/recipe/pipeline.h"

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

}  // namespace energon::cli
