// Keeps the first batches of an epoch, which fill up its end.
//
// The batches stay in memory while the epoch runs. A saved state has only their restore keys. After
// a restore they are rebuilt only if the end of the epoch needs them.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/loader/batch_source.h"

namespace energon {

/// Not thread-safe.
class FirstBatches {
 public:
  void add(const Sample& batch);
  void clear();

  std::int64_t count() const { return static_cast<std::int64_t>(keys_.size()); }
  /// Number of samples in all kept batches.
  std::int64_t samples() const;

  /// The batches, in order, without places; valid until a call of any other function. Throws Error
  /// of BatchSource::restore_sample().
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
  std::vector<Sample> batches_;  // of keys_; empty until rebuilt
};

}  // namespace energon
