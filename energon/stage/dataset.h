// A stream of samples (or batches): what a loader runs.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/state/savable.h"

namespace energon {

/// Three outcomes: a sample, the end of the epoch (nothing; it stays the end until next_epoch()),
/// or an Error.
class Dataset : public Savable {
 public:
  virtual std::optional<Sample> next() = 0;

  /// Starts the next epoch. Requires: next() returned the end.
  virtual void next_epoch() = 0;

  /// Samples that one epoch yields; nothing if it never ends or is not known beforehand.
  virtual std::optional<std::int64_t> size() const = 0;

  /// Appends up to `count` samples to `samples`, fewer only at the end of the epoch. The same
  /// samples as `count` calls of next(), but a stage that reads may read them together. After an
  /// Error what was appended is of no use.
  virtual void next_many(std::int64_t count, std::vector<Sample>& samples);

  /// Passes over up to `count` samples and returns how many there were. Nothing is read, unless a
  /// stage on the way must see its samples to know what it yields (filters, packing, groups).
  virtual std::int64_t skip(std::int64_t count) = 0;

  /// Passes over up to `count` batches as they would be with `batch_size` samples each, whatever
  /// the pipeline's own batch size is; returns how many there were. Throws Error (kUnsupported)
  /// where batches are not made of so many samples each.
  virtual std::int64_t skip_batches(std::int64_t count, std::int64_t batch_size);

  /// Rebuilds the sample that was emitted with `key`, without moving the stream. Throws Error
  /// (kInvalidArgument) if the key is of another pipeline or out of range.
  virtual Sample restore_sample(const RestoreKey& key) = 0;

  /// Checks as far as is possible without reading that this pipeline emits items with such keys:
  /// its stages, and samples that exist. Throws Error (kInvalidArgument). A stage that does not
  /// implement it lets every key pass.
  virtual void check_key(const RestoreKey& /*key*/) const {}

 protected:
  /// skip() of a stage whose items cannot be counted without making them: makes and drops them.
  std::int64_t skip_by_running(std::int64_t count);
};

}  // namespace energon
