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

/// Three outcomes: a reference, the end of the epoch (nothing; it stays the end until
/// next_epoch()), or an Error.
class Order : public Savable {
 public:
  virtual std::optional<SampleRef> next() = 0;

  /// Starts the next epoch, wherever the current one stands.
  virtual void next_epoch() = 0;

  /// References that one epoch yields; nothing if it never ends or is not known beforehand.
  virtual std::optional<std::int64_t> size() const = 0;

  /// References of one passage over the data of this logical shard, before repeating: what a
  /// fraction of a repetition is taken of, and 0 if there is nothing at all. Nothing if it is not
  /// known.
  virtual std::optional<std::int64_t> samples_per_pass() const { return size(); }

  /// Appends where all references of this order lie. False if it cannot be said; then nothing is
  /// known of them, and a state that holds references is not checked for it.
  virtual bool list_ranges(std::vector<LeafRange>& /*ranges*/) const { return false; }

  /// Passes over up to `count` references, as that many next() would; returns how many there were.
  std::int64_t skip(std::int64_t count) {
    std::int64_t skipped = 0;
    while (skipped < count && next()) {
      ++skipped;
    }
    return skipped;
  }
};

}  // namespace energon
