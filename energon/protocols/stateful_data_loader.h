// A loader that is driven and saved as torchdata's StatefulDataLoader: passes that are begun with
// iterate(), and a position that is a JSON value.
//
//   StatefulDataLoader loader(pipeline, {.worker_config = {.num_workers = 2}});
//   loader.iterate();
//   while (auto batch = loader.next()) { … }            // a pass: one epoch
//   const auto dict = loader.state_dict();              // at any moment
//   …
//   other.load_state_dict(dict);                        // in another process, perhaps
//   other.iterate();                                    // goes on with the rest of that epoch
//
// It holds a source of batches, whose position is the position: nothing here counts or replays. A
// state taken after the last batch of an epoch continues with the end of that epoch; one taken
// after the end was reported, with the whole next epoch. docs/protocols.md says what is like
// torchdata and what is not; docs/formats/checkpoint.md describes the dictionary.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "energon/distributed/batch_source.h"
#include "energon/stage/pipeline.h"
#include "energon/worker/loader_options.h"

namespace energon {

struct StatefulOptions {
  /// Workers store the states of their pipelines so often that at most so many batches, of all
  /// workers together, are passed over when a state is loaded, on references. 0: at the first batch
  /// of each epoch only. Pipelines in the caller's process are saved as they are, whatever this is.
  std::int64_t snapshot_every_n_steps = 1;

  /// Workers live on from epoch to epoch. Else they end with each epoch and are started again,
  /// which makes no difference to the batches.
  bool persistent_workers = false;
};

/// For one thread at a time.
class StatefulDataLoader {
 public:
  /// The batches of a SavableDataLoader; as there, workers are forked from a process that is forked
  /// now. Throws Error (kInvalidArgument), also if checkpoint_every_batches is set: here it follows
  /// from snapshot_every_n_steps.
  explicit StatefulDataLoader(PipelineFactory make_pipeline, const LoaderOptions& options = {},
                              const StatefulOptions& stateful = {});
  /// Takes part in `source`, which is driven by nobody else, from where it stands.
  /// snapshot_every_n_steps has no effect on it. Throws Error of its save_state().
  explicit StatefulDataLoader(std::shared_ptr<BatchSource> source,
                              const StatefulOptions& options = {});

  /// Begins a pass: where the loaded state says, else the next epoch. If a pass is under way, its
  /// epoch begins again, with the same batches in the same order, also if its first part was before
  /// a load. Throws Error: kMismatch with all differences if the loaded state, or the start of its
  /// epoch, is of another source, layout or number of workers; then no pass was begun, state_dict()
  /// is still the loaded one, and it throws again until another state is loaded. Of the source,
  /// which may then stand at the start of that epoch.
  void iterate();

  /// The next batch of the pass; nothing at its end, and from then on until iterate(). Throws Error
  /// (kInvalidArgument) if no pass was begun since construction or a load, and of the source.
  std::optional<Sample> next();

  /// The position after the batches handed out so far, or the loaded state if no pass was begun
  /// since; at any moment, and changes nothing. A value that nothing later changes. Throws Error of
  /// the source's save_state().
  nlohmann::ordered_json state_dict();

  /// Ends the pass under way, if any; takes effect at the next iterate(). An empty dictionary (or
  /// null) is the position at construction. `dict` may be used again. Throws Error: kCorruptData
  /// with the path of what is wrong, kUnsupported for a newer version; then nothing has changed.
  void load_state_dict(const nlohmann::ordered_json& dict);

  /// Of the source.
  std::optional<std::int64_t> size() { return source_->size(); }
  std::vector<std::string> warnings() const { return source_->warnings(); }
  BatchSource& source() { return *source_; }

 private:
  struct Position {
    std::int64_t steps = 0;  // batches handed out in the epoch
    State source;
    std::optional<State> epoch_start;  // where the epoch began; absent: at `source`
  };
  enum class Pass : std::uint8_t { kNone, kUnderWay, kEnded };

  Position position();
  static nlohmann::ordered_json to_json(const Position& position);
  static Position from_json(const nlohmann::ordered_json& dict);

  const std::shared_ptr<BatchSource> source_;
  const StatefulOptions options_;
  const Position initial_;

  std::optional<Position> loaded_;  // for the next iterate()
  Pass pass_ = Pass::kNone;
  State epoch_start_;       // of the pass under way
  std::int64_t steps_ = 0;  // batches handed out in its epoch
  bool begun_ = false;      // next() was called in that epoch
};

}  // namespace energon
