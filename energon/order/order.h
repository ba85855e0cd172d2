// A stream of sample references: the part of a pipeline that decides the order, before any byte is
// read.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "energon/sample/sample_ref.h"
#include "energon/state/savable.h"

namespace energon {

/// Samples [begin, end) of a leaf.
struct LeafRange {
  std::uint32_t leaf = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// next() has three outcomes: a reference, the end of the epoch (nullopt, repeated until
/// next_epoch()), or an Error.
class Order : public Savable {
 public:
  virtual std::optional<SampleRef> next() = 0;

  /// Starts the next epoch, at any position in the current one.
  virtual void next_epoch() = 0;

  /// The number of references in one epoch; nullopt if the epoch never ends or the number is not
  /// known in advance.
  virtual std::optional<std::int64_t> size() const = 0;

  /// The number of references in one pass over the data of this logical shard, before repeating. A
  /// fractional repetition is a fraction of this number. 0 if there is no data; nullopt if the
  /// number is not known.
  virtual std::optional<std::int64_t> samples_per_pass() const { return size(); }

  /// Appends ranges that contain all references of this order. Returns false if the ranges are
  /// unknown; references in a saved state are then not checked against them.
  virtual bool list_ranges(std::vector<LeafRange>& /*ranges*/) const { return false; }

  /// Whether neighboring samples of a leaf follow each other soon, so that reading ahead pays off.
  virtual bool has_runs() const { return true; }

  /// Skips up to `count` references, as `count` calls of next() would. Returns the number skipped.
  std::int64_t skip(std::int64_t count) {
    std::int64_t skipped = 0;
    while (skipped < count && next()) {
      ++skipped;
    }
    return skipped;
  }
};

}  // namespace energon
