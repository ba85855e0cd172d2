// For stages that make one item from several samples (batches, groups, packs) or hold samples
// between their items.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/stage/failure.h"

namespace energon {

/// Length of a sample in the unit used for groups and packs, such as tokens, frames or seconds.
using LengthFunction = std::function<std::int64_t(const Sample& sample)>;

/// A sample with only the keys and sources of `sample`, which a report needs after a function has
/// consumed the sample.
Sample origins_of(const Sample& sample);

/// Copies the keys and sources of `origins` to `made` if it has none, so that a function that
/// builds a new sample need not copy them.
void set_origins(Sample& made, const Sample& origins);

/// Moves the keys and sources of `samples`, in order, to the end of those of `item`.
void move_origins(std::span<Sample> samples, Sample& item);

/// Throws as check_made() if `fields`, which a function made from `samples`, contain a duplicate
/// name. Call it before move_origins(), so that a report still finds keys and sources in `samples`.
void check_fields_of(std::span<const Sample> samples, const Mapping& fields);

/// The restore keys of `samples`, in order.
std::vector<RestoreKey> restore_keys(std::span<const Sample> samples);

/// The key of an item that is made of `samples`: RestoreKey::list() of their keys.
RestoreKey key_of_list(Stage stage, std::initializer_list<std::int64_t> integers,
                       std::span<const Sample> samples);

/// The samples that `inner` emitted with `keys`, in order. Throws as Dataset::restore_sample().
std::vector<Sample> restore_samples(Dataset& inner, std::span<const RestoreKey> keys);

/// The entries for `samples` in a report. Requires: their keys and sources are still there.
std::vector<FailedSample> failed_samples(std::span<const Sample> samples);

// --- Samples that a stage holds between its items ---
//
// A state has only their restore keys; after a restore they are rebuilt when needed.

/// The saved form of a list of keys: u32 count, then each as text (u32 length, bytes).
std::string encode_keys(std::span<const RestoreKey> keys);

/// Reads that form. Throws Error (kCorruptData) with the position of the fault.
std::vector<RestoreKey> decode_keys(std::string_view bytes);

/// The same, but also checks that `inner` emits such items (Dataset::check_key()); for checking a
/// state. Also throws Error (kInvalidArgument).
std::vector<RestoreKey> decode_keys(std::string_view bytes, const Dataset& inner);

/// Like inner.restore_sample(key), for a stream that cannot continue without the sample: any
/// exception becomes an Error that explains this.
Sample rebuild_sample(Dataset& inner, const RestoreKey& key);

/// Rethrows the current exception, thrown while rebuilding the item `key` of the saved position, as
/// such an Error. Requires: called in an exception handler.
[[noreturn]] void fail_to_rebuild(const RestoreKey& key);

/// Payload bytes that all buffers of a stage hold together, and their limit.
struct PayloadBudget {
  std::uint64_t limit_bytes;
  std::uint64_t held_bytes = 0;
};

/// Number of samples that a stage reads together. Reading a whole buffer at once would load it
/// before the limit on its payload applies.
inline constexpr std::int64_t kReadTogether = 1024;

/// The default limit of a stage.
inline constexpr std::uint64_t kMaxHeldBytes = std::uint64_t{256} << 20;

/// An ordered list of samples from an inner stage, which groups and packing keep between items.
///
/// The list consists of restore keys, and only these are saved. Samples are held in memory while
/// they fit into the budget. The others, and all of them after a restore, are rebuilt from their
/// keys when taken. Either way the same samples come out. A held sample keeps the memory that it
/// was read into, which it may share with its neighbors.
class SampleBuffer {
 public:
  /// Rebuilds the sample of a key; throws Error if it cannot.
  using Rebuild = std::function<Sample(const RestoreKey& key)>;

  /// For samples that `inner` emitted. Both arguments must outlive the buffer.
  SampleBuffer(Dataset& inner, PayloadBudget& budget);
  /// For samples that `rebuild` can make. `budget` must outlive the buffer.
  SampleBuffer(Rebuild rebuild, PayloadBudget& budget)
      : rebuild_(std::move(rebuild)), budget_(budget) {}
  ~SampleBuffer() { clear(); }
  SampleBuffer(const SampleBuffer&) = delete;
  SampleBuffer& operator=(const SampleBuffer&) = delete;

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

  void push_back(Sample sample);
  /// Removes and returns the first `count` samples. Requires: count <= size(). Throws Error if one
  /// cannot be rebuilt; then the buffer is unchanged.
  std::vector<Sample> take_front(std::size_t count);
  /// Removes the first `count` samples. Requires: count <= size().
  void drop_front(std::size_t count);
  /// Moves the sample at position order[i] to position i. Requires: `order` is a permutation of the
  /// positions.
  void reorder(std::span<const std::size_t> order);
  void clear();

  /// encode_keys() of the buffer. Throws only if memory allocation does.
  std::string save() const;
  /// Replaces the contents with saved keys; reads no samples. Throws Error (kCorruptData); then
  /// nothing has changed.
  void restore(std::string_view saved);

 private:
  struct Entry {
    Sample sample;  // only the restore key unless held
    std::uint64_t payload_bytes = 0;
    bool is_held = false;
  };

  const Rebuild rebuild_;
  PayloadBudget& budget_;
  std::deque<Entry> entries_;
};

}  // namespace energon
