// The data, pipeline and options of a loader, as the flags of the command line describe them.

#pragma once

#include <cstdint>
#include <optional>

#include "cli/job/loader_flags.h"
#include "energon/stage/dataset.h"
#include "energon/state/savable.h"
#include "energon/worker/loader_options.h"
#include "io/dataset/dataset_folder.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/stages/tokenize.h"

namespace energon::cli {

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

}  // namespace energon::cli
