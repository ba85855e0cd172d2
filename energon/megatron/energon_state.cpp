#include "energon/megatron/energon_state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/positioned_dataset.h"
#include "energon/checkpoint/state_config.h"
#include "energon/megatron/energon_leaf.h"
#include "energon/megatron/energon_translation.h"
#include "energon/megatron/energon_tree.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/stage/call_context.h"
#include "energon/state/state_json.h"
#include "io/error.h"

namespace energon {

// --- States of Energon ---

namespace {

constexpr std::int64_t kMostBatches = std::int64_t{1} << 42;  // like check_loader_state()

std::int64_t batches(const JsonReader& reader) {
  const std::int64_t count = reader.count();
  if (count > kMostBatches) {
    reader.fail(fmt::format("expected at most {}, which no job exceeds", kMostBatches));
  }
  return count;
}

EnergonWorkerState worker_of(const JsonReader& json) {
  EnergonWorkerState worker{.sample_index = batches(json.member("sample_index")),
                            .offset = batches(json.member("offset"))};
  if (const JsonReader tree = json.member("state"); !tree.is_null()) {
    worker.tree = tree.json();
  }
  return worker;
}

EnergonRankState read_rank(const JsonReader& json, const std::string& path) {
  if (json.is_null()) {
    return {.path = path, .is_start = true};
  }
  EnergonRankState rank{.path = path,
                        .has_workers = json.member("has_workers").boolean(),
                        .next_worker_id = json.member("next_worker_id").count()};
  if (const JsonReader size = json.member("micro_batch_size"); !size.is_null()) {
    rank.micro_batch_size = size.count();
    if (*rank.micro_batch_size < 1 || *rank.micro_batch_size > std::numeric_limits<int>::max()) {
      size.fail("expected a batch size from 1 to 2^31 - 1");
    }
  }
  for (const JsonReader& worker : json.member("workers").elements()) {
    rank.workers.push_back(worker_of(worker));
  }
  const std::int64_t workers = std::ssize(rank.workers);
  if (workers == 0 || (!rank.has_workers && workers != 1)) {
    json.member("workers").fail("expected at least one worker, and exactly one without processes");
  }
  if (rank.next_worker_id >= workers) {
    json.member("next_worker_id")
        .fail(fmt::format("expected a number below {}, the number of workers", workers));
  }
  return rank;
}

int worker_count(const EnergonRankState& rank) {
  return rank.has_workers ? static_cast<int>(rank.workers.size()) : 0;
}

}  // namespace

EnergonRankState energon_rank_state(const nlohmann::ordered_json& json, const std::string& path) {
  try {
    return read_rank(JsonReader(json, "state"), path);
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

WorkerConfig energon_layout(const std::vector<EnergonRankState>& states, WorkerConfig layout) {
  if (layout.logical_shards) {
    throw Error(ErrorCode::kInvalidArgument,
                "Energon has no logical shards: import the state without logical_shards, then "
                "convert it to another layout with `energon checkpoint rescale`");
  }
  const bool is_one_of_many = states.size() == 1 && layout.world_size > 1;
  if (!is_one_of_many && std::ssize(states) != layout.world_size) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("found states of {} ranks, but the job has {}: pass the states of all "
                            "ranks in order, or that of one with its rank and the world size",
                            states.size(), layout.world_size));
  }
  const auto begun = std::find_if(states.begin(), states.end(),
                                  [](const EnergonRankState& rank) { return !rank.is_start; });
  if (begun == states.end()) {
    return layout;  // nothing was delivered: any number of workers
  }
  layout.num_workers = worker_count(*begun);
  for (const EnergonRankState& rank : states) {
    if (!rank.is_start && worker_count(rank) != layout.num_workers) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("the rank has {} workers, but that of {} has {}", worker_count(rank),
                              printable(begun->path), layout.num_workers),
                  {.path = rank.path});
    }
  }
  return layout;
}

// --- The position of a rank from a state of Energon's loader ---

namespace {

constexpr std::int64_t kPiece = 64;  // batches between checks for cancellation

// Whether there is a stage that may leave samples out.
bool has_functions(const Config& pipeline) {
  return order_in(pipeline) == nullptr || pipeline.at("type") == "Map" ||
         (pipeline.contains("inner") && has_functions(pipeline.at("inner")));
}

// One logical shard: our pipeline at the position of Energon's worker.
struct ShardPosition {
  SavableDatasetCheckpoint checkpoint;
  bool is_before_epoch = true;       // nothing of its epoch was delivered
  std::int64_t in_epoch = 0;         // batches of its epoch
  bool is_exact = true;              // if false, there may be more than `in_epoch`
  std::optional<std::int64_t> size;  // batches of an epoch

  std::int64_t delivered() const { return checkpoint.index; }
  /// The epoch of the last batch; -1 if there was none.
  std::int64_t last_epoch() const {
    return delivered() == 0 ? -1 : checkpoint.epoch - (is_before_epoch ? 1 : 0);
  }
};

void collect_counts(const State& state, std::vector<std::int64_t>& counts) {
  if (state.type == "SliceOrder") {
    counts.push_back(state.integer("sample_count"));
  }
  for (const State& inner : state.children) {
    collect_counts(inner, counts);
  }
}

// A pipeline that is moved to the position of one worker.
class ShardImport {
 public:
  ShardImport(const EnergonWorkerState& worker, const PipelineContext& context,
              const PipelineFactory& make_pipeline, const EnergonImportOptions& options)
      : worker_(worker),
        context_(context),
        options_(options),
        dataset_(make_pipeline(context)),
        config_(dataset_->config()),
        makes_batches_(options.functions_skip && has_functions(config_)) {}

  ShardPosition run() {
    if (worker_.tree) {
      const JsonReader reader(*worker_.tree, "state");
      go_to(EnergonNode(reader));
    } else {
      index_ = worker_.sample_index;
    }
    go_on(worker_.offset);
    // Energon's loader continues directly with the next epoch if it skips to the end of one.
    if (worker_.offset > 0 && is_at_end()) {
      next_epoch();
    }
    return position();
  }

 private:
  void go_to(const EnergonNode& tree) {
    const TranslationTarget target{.start = dataset_->save_state(),
                                   .config = config_,
                                   .seed = context_.seed(),
                                   .epoch_size = dataset_->size(),
                                   .check_cancelled = options_.check_cancelled};
    if (const auto translated = translate_energon_tree(tree, worker_.sample_index, target)) {
      restore(translated->state);
      index_ = worker_.sample_index;
      epoch_ = translated->epoch;
      return;
    }
    go_on(worker_.sample_index);
    compare_leaves(tree);
  }

  void restore(const State& state) {
    try {
      dataset_->restore_state(state);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}\n{}", error.message(), kOtherOrder));
    }
  }

  // Skips up to `count` batches of the epoch. Returns the number skipped.
  std::int64_t pass(std::int64_t count) {
    if (!makes_batches_) {
      return dataset_->skip(count);
    }
    for (std::int64_t passed = 0; passed < count; ++passed) {
      const ItemNumber number(index_ + passed);
      if (!dataset_->next()) {
        return passed;
      }
      context_.batch_memory->end_batch();
    }
    return count;
  }

  // Makes and drops `count` batches.
  void go_on(std::int64_t count) {
    int empty_epochs = 0;
    while (count > 0) {
      if (options_.check_cancelled) {
        options_.check_cancelled();
      }
      const std::int64_t piece = std::min(count, kPiece);
      const std::int64_t passed = pass(piece);
      count -= passed;
      index_ += passed;
      if (passed < piece) {
        empty_epochs = passed == 0 ? empty_epochs + 1 : 0;
        if (empty_epochs > 2) {
          throw Error(ErrorCode::kMismatch,
                      fmt::format("Energon delivered {} batches more than this job has; check the "
                                  "data, whether it is repeated, and the batch size",
                                  count));
        }
        next_epoch();
      }
    }
  }

  bool is_at_end() {
    if (!dataset_->size()) {
      return false;
    }
    const State before = dataset_->save_state();
    if (pass(1) == 0) {
      return true;
    }
    dataset_->restore_state(before);
    return false;
  }

  void next_epoch() {
    dataset_->next_epoch();
    ++epoch_;
  }

  // The same number of samples must have been read from each dataset; otherwise other samples were
  // left out, or functions chose others.
  void compare_leaves(const EnergonNode& tree) const {
    std::vector<std::int64_t> counts;
    collect_counts(dataset_->save_state(), counts);
    const std::vector<EnergonNode> leaves = leaves_of(tree);
    if (leaves.size() != counts.size()) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("Energon's job has {} datasets, this one {}; check the data and its "
                              "split",
                              leaves.size(), counts.size()));
    }
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const JsonReader count = leaves[i].field("_sample_count");
      if (count.count() != counts[i]) {
        throw Error(ErrorCode::kMismatch,
                    fmt::format("{}: after {} batches, Energon had read {} samples of the dataset, "
                                "this job {}; check the functions of the task encoder (samples "
                                "that Energon skipped must be skipped here), the batch size and "
                                "the data",
                                count.path(), worker_.sample_index, count.count(), counts[i]));
      }
    }
  }

  ShardPosition position() const {
    ShardPosition position{.checkpoint = {.state = dataset_->save_state(),
                                          .index = index_,
                                          .epoch = epoch_,
                                          .logical_shard = context_.logical_shard()},
                           .size = dataset_->size()};
    const State& state = *position.checkpoint.state;
    const bool counts = state.type == "Epochize" || state.type == "Limit";
    const Config* const order = order_in(config_);
    if (counts) {
      position.in_epoch = state.integer("offset");
      position.is_before_epoch = position.in_epoch == 0;
    } else {
      // Functions may have left out batches of earlier epochs.
      position.is_exact = epoch_ == 0 || !makes_batches_;
      const std::int64_t most = std::max<std::int64_t>(position.size.value_or(index_), 1);
      const std::int64_t in_epoch = index_ - epoch_ * position.size.value_or(0);
      position.is_before_epoch =
          order != nullptr ? is_before_epoch(order_in(state), *order) : in_epoch <= 0;
      position.in_epoch =
          position.is_before_epoch ? 0 : std::clamp<std::int64_t>(in_epoch, 1, most);
    }
    if (index_ == 0) {
      position.checkpoint.state.reset();
    }
    return position;
  }

  const EnergonWorkerState& worker_;
  const PipelineContext& context_;
  const EnergonImportOptions& options_;
  const std::unique_ptr<Dataset> dataset_;
  const Config config_;
  const bool makes_batches_;  // where skipping might miss what functions leave out
  std::int64_t index_ = 0;
  std::int64_t epoch_ = 0;
};

std::vector<ShardPosition> import_shards(const EnergonRankState& state,
                                         const PipelineFactory& make_pipeline,
                                         const WorkerConfig& layout,
                                         const EnergonImportOptions& options) {
  HeapBufferPool memory;
  const auto readers = make_leaf_readers();
  std::vector<ShardPosition> shards;
  for (int stream = 0; stream < layout.logical_shards_per_rank(); ++stream) {
    const EnergonWorkerState worker =
        state.is_start ? EnergonWorkerState() : state.workers.at(static_cast<std::size_t>(stream));
    const PipelineContext context{
        .config = layout, .local_index = stream, .memory = memory, .readers = readers};
    if (options.check_cancelled) {
      options.check_cancelled();
    }
    try {
      shards.push_back(ShardImport(worker, context, make_pipeline, options).run());
    } catch (Error& error) {
      error.with({.path = state.path, .worker = stream});
      throw;
    }
  }
  return shards;
}

// The turns of the shards in `epoch`: round robin from the next worker on. The numbers of delivered
// batches may differ from that, because Energon's `checkpoint redist` redistributes workers.
void set_turns(std::vector<ShardPosition>& shards, std::int64_t epoch, std::int64_t next_worker) {
  std::optional<std::int64_t> least;
  bool has_begun = false;
  const auto is_in_turn = [epoch](const ShardPosition& shard) {
    const Turn& turn = shard.checkpoint.turn;
    return turn.epoch == epoch && (!shard.size || turn.count < *shard.size);
  };
  for (ShardPosition& shard : shards) {
    SavableDatasetCheckpoint& checkpoint = shard.checkpoint;
    const bool is_in_epoch = checkpoint.epoch == epoch && shard.delivered() > 0;
    checkpoint.turn = {std::max(checkpoint.epoch, epoch), is_in_epoch ? shard.in_epoch : 0};
    has_begun = has_begun || (is_in_epoch && shard.in_epoch > 0);
    if (is_in_turn(shard)) {
      least = std::min(checkpoint.turn.count, least.value_or(checkpoint.turn.count));
    }
  }
  for (std::size_t i = 0; has_begun && i < shards.size(); ++i) {
    if (is_in_turn(shards[i])) {
      shards[i].checkpoint.turn.count =
          *least + (static_cast<std::int64_t>(i) < next_worker ? 1 : 0);
    }
  }
}

std::optional<std::int64_t> steps_in_epoch(const std::vector<ShardPosition>& shards,
                                           std::int64_t epoch) {
  std::int64_t steps = 0;
  for (const ShardPosition& shard : shards) {
    if (!shard.is_exact) {
      return std::nullopt;
    }
    if (shard.checkpoint.epoch == epoch) {
      steps += shard.in_epoch;
    } else if (shard.checkpoint.epoch > epoch) {
      if (!shard.size) {
        return std::nullopt;
      }
      steps += *shard.size;
    }
  }
  return steps;
}

void check_batch_size(const EnergonRankState& state, const Config& config) {
  const auto size = micro_batch_size(config);
  if (!state.is_start && size != state.micro_batch_size) {
    const auto text = [](std::optional<std::int64_t> samples) {
      return samples ? fmt::format("batches of {} samples", *samples) : std::string("no batches");
    };
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("Energon's job had {}, this one has {}: import it with that batch size; "
                    "a loader with workers may then continue with smaller ones",
                    text(state.micro_batch_size), text(size)),
        {.path = state.path});
  }
}

}  // namespace

SavableDataLoaderState import_energon_state(const EnergonRankState& state,
                                            const PipelineFactory& make_pipeline,
                                            const WorkerConfig& layout,
                                            const EnergonImportOptions& options) {
  SavableDataLoaderState imported;
  imported.config = state_config(make_pipeline, layout);
  imported.micro_batch_size = micro_batch_size(imported.config);
  check_batch_size(state, imported.config);
  std::vector<ShardPosition> shards = import_shards(state, make_pipeline, layout, options);
  for (const ShardPosition& shard : shards) {
    imported.epoch = std::max(imported.epoch, shard.last_epoch());
    imported.batch_index += shard.delivered();
  }
  set_turns(shards, imported.epoch, state.next_worker_id);
  imported.step_in_epoch = steps_in_epoch(shards, imported.epoch);
  std::vector<Turn> turns;
  for (ShardPosition& shard : shards) {
    turns.push_back(shard.checkpoint.turn);
    imported.checkpoints.push_back(std::move(shard.checkpoint));
  }
  const std::optional<std::size_t> next = Turns(std::move(turns), imported.epoch).next();
  imported.epoch_finished = !next;
  imported.next_worker_id = static_cast<std::int64_t>(next.value_or(0));
  try {
    return fit_state(imported, imported.config, make_pipeline, layout);
  } catch (Error& error) {
    error.with({.path = state.path});
    throw;
  }
}

}  // namespace energon
