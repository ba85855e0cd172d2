// What adapters compose: something that delivers batches and can be saved and restored.
//
// A loader is one (LoaderSource), an indexed dataset is one (IndexedSource), and every adapter is
// one again, so adapters can be stacked. Adapters hold a source; nothing inherits from a loader.

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

  /// The position after the batches handed out so far. Changes nothing that can be seen.
  virtual State save_state() = 0;
  /// Continues from `state`, at any moment. Throws Error (kMismatch) if it is of something else;
  /// then nothing has changed.
  virtual void restore_state(const State& state) = 0;

  /// Ends worker processes, if there are any, and keeps the position; the next next() starts them
  /// again.
  virtual void stop() {}

  /// What the user should be told about this source, each thing once; harmless.
  virtual std::vector<std::string> warnings() const { return {}; }

  /// Batches of one epoch; nothing if it never ends or is not known.
  virtual std::optional<std::int64_t> size() = 0;

  /// Passes over up to `count` batches, at most to the end of the epoch, and returns how many there
  /// were. Here they are drawn and dropped; a source that can, reads nothing.
  virtual std::int64_t skip(std::int64_t count);

  /// Epochs whose end was handed out.
  virtual std::int64_t epoch() const = 0;
  /// Makes the epoch that begins next the one with this number. Throws Error (kUnsupported) if the
  /// order has no numbered epochs, kInvalidArgument within an epoch.
  virtual void set_epoch(std::int64_t epoch);

  /// Of the batches that all ranks got last in an epoch, the samples that are no filling; nothing
  /// if that is not known. See trim_gathered().
  virtual std::optional<std::int64_t> remainder() const { return std::nullopt; }

  /// What the sources of all ranks of a job must have in common, such as data and configuration;
  /// null if nothing is known.
  virtual Config common_settings();

  /// Rebuilds the batch that was handed out with `key`; the stream does not move. Throws Error
  /// (kUnsupported) if the source cannot.
  virtual Sample restore_sample(const RestoreKey& key);

 protected:
  /// Throws Error (kMismatch) with all differences unless `state` has the type, the fields and the
  /// number of inner states of `expected`. Inner states are checked by their owners.
  static void check_shape(const State& state, const State& expected);

  /// The field of a state with the settings that its position belongs to.
  static std::pair<std::string, StateValue> settings_field(const Config& settings);
  /// check_shape() for a state with that field; throws also Error (kMismatch) with all differences
  /// if it was saved under other settings than `settings`. States of earlier versions do not say.
  static void check_settings(const State& state, State expected, const Config& settings);
};

}  // namespace energon
