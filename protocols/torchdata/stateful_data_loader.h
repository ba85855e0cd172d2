// A loader with the interface of torchdata's StatefulDataLoader: iterate() begins a pass over the
// data, and the position is a JSON value.
//
//   StatefulDataLoader loader(pipeline, {.worker_config = {.num_workers = 2}});
//   loader.iterate();
//   while (auto batch = loader.next()) { … }            // a pass: one epoch
//   const auto dict = loader.state_dict();              // at any time
//   …
//   other.load_state_dict(dict);                        // in another process, perhaps
//   other.iterate();                                    // continues with the rest of that epoch
//
// It wraps a batch source and saves that source's position, so restoring replays no batches. A
// state taken after the last batch of an epoch continues with the end of that epoch; a state taken
// after the end was reported continues with the whole next epoch. docs/protocols.md lists what is
// like torchdata and what is not; docs/formats/checkpoint.md describes the dictionary.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/loader/batch_source.h"
#include "energon/stage/dataset.h"
#include "energon/worker/loader_options.h"

namespace energon {

struct StatefulOptions {
  /// How often workers store the states of their pipelines. Loading a state skips at most this many
  /// batches, of all workers together, without reading data. 0 means only at the first batch of
  /// each epoch. Has no effect on pipelines in the caller's process, which are saved exactly.
  std::int64_t snapshot_every_n_steps = 1;

  /// If true, workers stay alive from epoch to epoch. If false, they end with each epoch and are
  /// started again. The batches are the same.
  bool persistent_workers = false;
};

/// For one thread at a time.
class StatefulDataLoader {
 public:
  /// Delivers the batches of a SavableDataLoader. Like that loader, forks the fork server for the
  /// workers now. Throws Error (kInvalidArgument), also if checkpoint_every_batches is set, which
  /// snapshot_every_n_steps determines here.
  explicit StatefulDataLoader(PipelineFactory make_pipeline, const LoaderOptions& options = {},
                              const StatefulOptions& stateful = {});
  /// Shares ownership of `source` and continues from its current position; nothing else may drive
  /// it. snapshot_every_n_steps has no effect. Throws Error of its save_state_rank().
  explicit StatefulDataLoader(std::shared_ptr<BatchSource> source,
                              const StatefulOptions& options = {});

  /// Begins a pass: at the loaded state if there is one, else at the next epoch. If a pass is under
  /// way, begins its epoch again with the same batches in the same order, even if part of the epoch
  /// was before a load. Throws Error: kMismatch with all differences if the loaded state, or the
  /// start of its epoch, belongs to another source, layout or number of workers; then no pass was
  /// begun, state_dict() still returns the loaded state, and every call throws again until another
  /// state is loaded. Also throws Errors of the source, which may then be at the start of that
  /// epoch.
  void iterate();

  /// The next batch of the pass; nullopt at its end and from then on until iterate(). Throws Error
  /// (kInvalidArgument) if no pass was started since construction or a load, and of the source.
  std::optional<Sample> next();

  /// The position after the batches delivered so far, or the loaded state if no pass was started
  /// since. May be called at any time; no side effects. The result is an independent copy.
  /// Throws Error of the source's save_state_rank().
  nlohmann::ordered_json state_dict();

  /// Ends the pass under way, if any; the state takes effect at the next iterate(). An empty
  /// dictionary (or null) means the position at construction. `dict` may be used again. Throws
  /// Error: kCorruptData with the JSON path of the faulty value, kUnsupported for a newer version;
  /// then nothing has changed.
  void load_state_dict(const nlohmann::ordered_json& dict);

  /// The same as those of the source.
  std::optional<std::int64_t> size() const { return source_->size(); }
  std::vector<std::string> warnings() const { return source_->warnings(); }
  BatchSource& source() { return *source_; }

 private:
  struct Position {
    std::int64_t steps = 0;  // batches delivered in the epoch
    SavableDataLoaderState source;
    std::optional<SavableDataLoaderState> epoch_start;  // start of the epoch; if unset, `source`
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
  SavableDataLoaderState epoch_start_;  // of the pass under way
  std::int64_t steps_ = 0;              // batches delivered in its epoch
  bool begun_ = false;                  // next() was called in that epoch
};

/// The state of a batch source in a dictionary: the JSON form of its tree
/// (energon/state/state_json.h), but the position of the loader in it is readable JSON as well
/// (energon/checkpoint/state_forms.h):
///
///   {"type": "Loader", "loader": {"batch_index": 11, …}}
///
/// Throws Error (kUnsupported) like state_to_json().
nlohmann::ordered_json source_state_to_json(const SavableDataLoaderState& state);

/// The inverse. Throws Error (kCorruptData) with the JSON path of the faulty value, which begins
/// with `path`.
SavableDataLoaderState source_state_from_json(const nlohmann::ordered_json& json,
                                              const std::string& path);

}  // namespace energon
