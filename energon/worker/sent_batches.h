// The batches that a worker has sent and the parent has not taken yet.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace energon {

/// Counts in units of the sample ring, of which a batch is one. Not thread-safe.
class SentBatches {
 public:
  /// Records that unit number `unit` is batch `index` of `stream`. Both grow from call to call.
  void add(std::uint64_t unit, std::size_t stream, std::uint64_t index);

  /// Forgets the first `count` units: the parent has taken them.
  void taken(std::uint64_t count);

  /// How many units the parent has to take until it has the first `count` batches of `stream`, in
  /// units since the first; 0 if it has them already.
  std::uint64_t units_until(std::size_t stream, std::uint64_t count) const;

  /// Number of batches not forgotten.
  std::size_t size() const { return sent_.size(); }

 private:
  struct Sent {
    std::uint64_t unit;
    std::size_t stream;
    std::uint64_t index;
  };

  std::deque<Sent> sent_;  // oldest first
};

}  // namespace energon
