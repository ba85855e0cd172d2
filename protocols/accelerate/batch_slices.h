// Cuts and joins batches by samples, to split a batch among ranks and to pad the end of an epoch
// with its first batches.
//
// A field is per sample if it is a list with one element for each sample, or a tensor whose first
// dimension is the number of samples. Mappings are treated field by field. Any other field belongs
// to the whole batch: every slice keeps it, and it must be equal in all batches that are joined.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/loader/batch_source.h"
#include "energon/sample/sample.h"

namespace energon {

/// Number of samples in a batch, which is the number of its keys.
std::int64_t sample_count(const Sample& batch);

/// Samples [begin, end) of `batch`. Payloads are not copied. Only a slice of the whole batch keeps
/// the restore key and the place; other slices have none.
Sample slice_batch(const Sample& batch, std::int64_t begin, std::int64_t end);

/// Concatenates the batches; tensors are copied unless there is only one batch. Throws Error
/// (kInvalidArgument), naming the field, if the batches differ in fields, kinds, dtypes or
/// dimensions.
Sample concatenate_batches(std::span<const Sample> batches);

/// Throws like concatenate_batches(); copies nothing.
void check_concatenation(std::span<const Sample> batches);

/// Samples [begin, end) of the concatenated batches. Copies only if the range spans several
/// batches. Requires: the range is within the batches.
Sample slice_batches(std::span<const Sample> batches, std::int64_t begin, std::int64_t end);

/// Keeps the first batches of an epoch, which pad its end. The batches stay in memory during the
/// epoch. A saved state has only their restore keys. After a restore they are rebuilt only if the
/// end of the epoch needs them. Not thread-safe.
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
  /// Throws Error (kCorruptData), and then changes nothing.
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
