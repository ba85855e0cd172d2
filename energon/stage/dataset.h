// A stream of samples or batches, which a loader runs.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/state/savable.h"

namespace energon {

/// next() has three outcomes: a sample, the end of the epoch (nullopt, repeated until
/// next_epoch()), or an Error.
class Dataset : public Savable {
 public:
  virtual std::optional<Sample> next() = 0;

  /// Starts the next epoch. Requires: next() returned the end.
  virtual void next_epoch() = 0;

  /// The number of samples in one epoch; nullopt if the epoch never ends or the number is not known
  /// in advance.
  virtual std::optional<std::int64_t> size() const = 0;

  /// Appends up to `count` samples to `samples`; fewer only at the end of the epoch. Yields the
  /// same samples as `count` calls of next(), but a reading stage may read them together. After an
  /// Error, the appended samples must not be used.
  virtual void next_many(std::int64_t count, std::vector<Sample>& samples);

  /// Skips up to `count` samples and returns the number skipped. Reads no data, unless a stage must
  /// see its samples to know what it yields (filters, packing, groups).
  virtual std::int64_t skip(std::int64_t count) = 0;

  /// Whether skip() makes the items that it skips, so that a replay takes as long as the first run.
  /// A worker then stores its state more often (energon/worker/checkpoint_interval.h).
  virtual bool skip_makes_items() const { return true; }

  /// Skips up to `count` batches of `batch_size` samples each, regardless of the batch size of the
  /// pipeline. Returns the number skipped. Throws Error (kUnsupported) if the pipeline does not
  /// make batches of a fixed number of samples.
  virtual std::int64_t skip_batches(std::int64_t count, std::int64_t batch_size);

  /// Rebuilds the sample that was emitted with `key`, without moving the stream. Throws Error
  /// (kInvalidArgument) if the key belongs to another pipeline or is out of range.
  virtual Sample restore_sample(const RestoreKey& key) = 0;

  /// Checks, as far as possible without reading, that this pipeline emits items with such keys: the
  /// stages match and the samples exist. Throws Error (kInvalidArgument). The default accepts every
  /// key.
  virtual void check_key(const RestoreKey& /*key*/) const {}

 protected:
  /// Implements skip() for a stage whose items cannot be counted without making them: makes and
  /// drops them.
  std::int64_t skip_by_running(std::int64_t count);
};

}  // namespace energon
