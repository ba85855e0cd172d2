// The first batches of an epoch, which fill up its end.
//
// They are kept while the epoch runs. In a state they are restore keys, and are rebuilt from those
// only if the end is reached and needs them.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/distributed/batch_source.h"

namespace energon {

/// Not thread-safe.
class FirstBatches {
 public:
  void add(const Sample& batch);
  void clear();

  std::int64_t count() const { return static_cast<std::int64_t>(keys_.size()); }
  /// Of all of them.
  std::int64_t samples() const;

  /// The batches, in order; valid until the next call of another function. Throws Error of
  /// BatchSource::restore_sample().
  std::span<const Sample> rebuild(BatchSource& source);

  std::string save() const;
  /// Throws Error (kCorruptData); then nothing has changed.
  void restore(std::string_view bytes);

 private:
  struct Key {
    std::string restore_key;
    std::int64_t samples = 0;
  };
  std::vector<Key> keys_;
  std::vector<Sample> batches_;  // of keys_, or empty: still to be rebuilt
};

}  // namespace energon
