// BatchSource: the interface of everything that delivers the batches of a rank and can be saved and
// restored: loaders, adapters over them, and user-defined sources.
//
// All have the same type of position, SavableDataLoaderState, so adapters, AutoSaver,
// save_state_global() and StatefulDataLoader accept any of them. Adapters hold a source; nothing
// inherits from a loader.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/checkpoint/loader_state.h"
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

  /// The next batch; nullopt at the end of the epoch. The call after that begins the next epoch.
  virtual std::optional<Sample> next() = 0;

  /// The position after the batches delivered so far. Has no visible effect.
  virtual SavableDataLoaderState save_state_rank() = 0;
  /// Continues from `state`, which may be used again. A loader refuses while its workers run; call
  /// stop() first. Throws Error (kMismatch) if the state belongs to another source, and then
  /// changes nothing.
  virtual void restore_state_rank(const SavableDataLoaderState& state) = 0;

  /// The configuration in saved states: rank and layout, settings, data. The default saves a state
  /// to get it; overrides can avoid that.
  virtual Config state_config();

  /// Whether this rank's position is part of the job's. False if another rank reads for this one;
  /// then only that rank saves and restores.
  virtual bool keeps_position() const { return true; }

  /// Ends worker processes, if there are any, and keeps the position. The next call of next()
  /// starts them again.
  virtual void stop() {}

  /// Messages that the user should see about this source, each listed once. None of them is an
  /// error.
  virtual std::vector<std::string> warnings() const { return {}; }

  /// Number of batches in one epoch; nullopt if the epoch never ends or the number is not known.
  virtual std::optional<std::int64_t> size() const = 0;

  /// Number of batches left in this epoch; once its end was delivered, the number in the next
  /// epoch. nullopt if not known.
  virtual std::optional<std::int64_t> batches_left() const { return std::nullopt; }

  /// Skips up to `count` batches, at most to the end of the epoch, and returns how many it skipped.
  /// The default draws and drops them; overrides avoid reading data where they can.
  virtual std::int64_t skip(std::int64_t count);

  /// Number of epochs whose end was delivered.
  virtual std::int64_t epoch() const = 0;
  /// Sets the number of the epoch that begins next. Throws Error (kUnsupported) if the order has no
  /// numbered epochs, kInvalidArgument within an epoch.
  virtual void set_epoch(std::int64_t epoch);

  /// Number of real (not padded) samples in the last batches of an epoch, over all ranks; nullopt
  /// if not known.
  virtual std::optional<std::int64_t> remainder() const { return std::nullopt; }

  /// What the sources of all ranks of a job must share, such as data and configuration; null if not
  /// known.
  virtual Config common_settings() const;

  /// Rebuilds the batch that was delivered with `key`; the position does not change. Throws Error
  /// (kUnsupported) if the source cannot do this.
  virtual Sample restore_sample(const RestoreKey& key);

 protected:
  /// For sources with their own position, without logical shards (source_state()): returns the
  /// position in `state`. Throws Error (kMismatch) if it has another type than `type`, or adapters.
  static const State& source_position_in(const SavableDataLoaderState& state,
                                         std::string_view type);
  /// Throws Error (kMismatch) with all differences unless `node` has the type and the fields of
  /// `expected`.
  static void check_node(const State& node, const State& expected);

  /// The state field that holds the settings under which the position was saved.
  static std::pair<std::string, StateValue> settings_field(const Config& settings);
  /// Throws Error: kMismatch with all differences unless `node` has the type and the fields of
  /// `expected`, one of which is the settings field, and was saved under `settings`; kCorruptData
  /// if the field is not a JSON object.
  static void check_settings(const State& node, const State& expected, const Config& settings);
};

/// Ends the workers of `source`, ignoring their errors, and continues from `state`, at any time.
/// Throws like restore_state_rank().
void stop_and_restore(BatchSource& source, const SavableDataLoaderState& state);

}  // namespace energon
