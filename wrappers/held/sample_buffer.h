// An ordered list of samples from an inner stage, which groups and packing keep between items.
//
// The list consists of restore keys, and only these are saved. Samples are held in memory while
// they fit into the budget. The others, and all of them after a restore, are rebuilt from their
// keys when taken. Either way the same samples come out. A held sample keeps the memory that it was
// read into, which it may share with its neighbours.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"

namespace energon {

/// Payload bytes that all buffers of a stage hold together, and their limit.
struct PayloadBudget {
  std::uint64_t limit_bytes;
  std::uint64_t held_bytes = 0;
};

/// The default limit of a stage.
inline constexpr std::uint64_t kMaxHeldBytes = std::uint64_t{256} << 20;

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
