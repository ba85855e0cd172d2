// The interface that adapters wrap: it delivers batches and can be saved and restored.
//
// Loaders (LoaderSource), indexed datasets (IndexedSource) and adapters are all batch sources, so
// adapters can be stacked. Adapters hold a source; nothing inherits from a loader.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/state/savable.h"
#include "energon/state/state.h"

namespace energon {

/// For one thread at a time.
class BatchSource {
 public:
  BatchSource() = default;
  virtual ~BatchSource() = default;
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  /// The next batch; nothing at the end of the epoch. The call after that begins the next epoch.
  virtual std::optional<Sample> next() = 0;

  /// The position after the batches handed out so far. Has no visible effect.
  virtual State save_state() = 0;
  /// Continues from `state`; may be called at any time. Throws Error (kMismatch) if the state
  /// belongs to another source; then nothing has changed.
  virtual void restore_state(const State& state) = 0;

  /// Ends worker processes, if there are any, and keeps the position. The next call of next()
  /// starts them again.
  virtual void stop() {}

  /// Messages that the user should see about this source, each listed once. None of them is an
  /// error.
  virtual std::vector<std::string> warnings() const { return {}; }

  /// Number of batches in one epoch; nothing if the epoch never ends or the number is not known.
  virtual std::optional<std::int64_t> size() = 0;

  /// Skips up to `count` batches, at most to the end of the epoch, and returns how many it skipped.
  /// The default draws and drops them; overrides avoid reading data where they can.
  virtual std::int64_t skip(std::int64_t count);

  /// Number of epochs whose end was handed out.
  virtual std::int64_t epoch() const = 0;
  /// Sets the number of the epoch that begins next. Throws Error (kUnsupported) if the order has no
  /// numbered epochs, kInvalidArgument within an epoch.
  virtual void set_epoch(std::int64_t epoch);

  /// Number of samples in the last batches of an epoch on all ranks together, without repeats that
  /// fill up the end; nothing if not known. See trim_gathered().
  virtual std::optional<std::int64_t> remainder() const { return std::nullopt; }

  /// What the sources of all ranks of a job must have in common, such as data and configuration;
  /// null if not known.
  virtual Config common_settings();

  /// Rebuilds the batch that was handed out with `key`; the position does not change. Throws Error
  /// (kUnsupported) if the source cannot.
  virtual Sample restore_sample(const RestoreKey& key);

 protected:
  /// Throws Error (kMismatch) with all differences unless `state` has the type, the fields and the
  /// number of inner states of `expected`. The owners of inner states check those.
  static void check_shape(const State& state, const State& expected);

  /// The state field that holds the settings under which the position was saved.
  static std::pair<std::string, StateValue> settings_field(const Config& settings);
  /// Like check_shape(), for a state with the settings field. Also throws Error: kMismatch with all
  /// differences if the state was saved under settings other than `settings`, kCorruptData if the
  /// field is not a JSON object. A state from an earlier version has no such field and skips this
  /// check.
  static void check_settings(const State& state, State expected, const Config& settings);
};

}  // namespace energon
