// States that Energon's SavableDataLoader saved, and our states at the same position.
//
// Energon pickles its states. They are read as data (io/pickle.h): the names of Energon's classes
// are a fixed list, and nothing in the file is executed. The functions below depend only on the
// content of the state and on pipelines.
//
// A state of Energon is translated stage by stage: both libraries have the same orders, generators
// and counters. Everything that determined the state (shards, counts, options) is in our pipeline,
// so mismatches are detected. If stages cannot be translated (packing, groups, functions that yield
// any number of samples), the pipeline runs from its start, and its leaves are then compared with
// those in the state. docs/python.md explains the consequences for users.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/order/worker_config.h"
#include "energon/stage/dataset.h"
#include "io/bytes.h"
#include "io/json.h"

namespace energon {

/// The state of one worker of a rank.
struct EnergonWorkerState {
  std::int64_t sample_index = 0;  ///< batches delivered before `tree` was saved
  std::int64_t offset = 0;        ///< batches delivered after that
  /// The states of the datasets, outermost first; nullopt if the worker had not started.
  std::optional<BoxedJson> tree = std::nullopt;
};

/// The state of one rank.
struct EnergonRankState {
  std::string path;       ///< of its file, for messages
  bool is_start = false;  ///< None was saved because no worker had started; the rest is then empty
  bool has_workers = true;  ///< false for a loader with num_workers=0
  std::int64_t next_worker_id = 0;
  std::optional<std::int64_t> micro_batch_size = std::nullopt;
  std::vector<EnergonWorkerState> workers = {};
};

/// The ranks in `content`: what torch.save() (both of its formats) or pickle.dump() with protocol 2
/// or later wrote of one rank, a list of all, or Megatron-LM's dict around either. Tensors and the
/// generators of torch, NumPy and Python are dropped: they do not decide the order of samples.
/// Thread-safe. Throws Error (kCorruptData) with `path` for anything else.
std::vector<EnergonRankState> parse_energon_states(ByteView content, const std::string& path);

/// The ranks in all files, in order. Throws as FileSource and parse_energon_states(), and
/// kInvalidArgument for a file of more than 1 GiB. `check_cancelled`: called for each file; what it
/// throws ends the call.
std::vector<EnergonRankState> read_energon_states(
    const std::vector<std::string>& files, const std::function<void()>& check_cancelled = nullptr);

/// The state of a rank from its JSON, which is null or has next_worker_id, micro_batch_size,
/// has_workers and workers, of which each has sample_index, offset and state: the tree of objects
/// that Energon's save_state() made, with bytes as {"base64": text} and tuples as lists. Throws
/// Error (kCorruptData) with `path` and the path of the invalid element.
EnergonRankState energon_rank_state(const nlohmann::ordered_json& json, const std::string& path);

/// The layout of a job with these states by rank, or of its rank `layout.rank` if there is one
/// state and `layout.world_size` is larger. The number of workers is that of the states. Throws
/// Error (kMismatch) if the numbers of ranks, or those of workers, are not equal.
WorkerConfig energon_layout(const std::vector<EnergonRankState>& states, WorkerConfig layout);

struct EnergonImportOptions {
  /// Whether functions may have left samples out. If so, the batches that Energon delivered since a
  /// worker kept its state are recomputed to find out which; otherwise they are counted.
  bool functions_skip = true;
  /// Called periodically; an exception ends the import.
  std::function<void()> check_cancelled = nullptr;
};

/// The state with which a loader of `make_pipeline` and `layout` continues with the batch that
/// follows `state` in Energon. Requires: `layout` is energon_layout(). Throws Error: kMismatch,
/// with the worker, if the state belongs to other data or options; kUnsupported if none of our
/// loaders can continue Energon's; kCorruptData. `check_cancelled` is called periodically; an
/// exception ends the import.
SavableDataLoaderState import_energon_state(const EnergonRankState& state,
                                            const PipelineFactory& make_pipeline,
                                            const WorkerConfig& layout,
                                            const EnergonImportOptions& options = {});

}  // namespace energon
