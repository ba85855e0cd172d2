// An ordered list of samples of an inner stage, as groups and packing keep them between items.
//
// What counts are the restore keys: they are all that is saved. The samples are attached while they
// fit into memory; the others, and all of them after a restore, are rebuilt from their keys when
// they are taken. Either way the same samples come out. A sample that is attached keeps the memory
// that it was read into, which it may share with its neighbours.

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

/// Payload that the buffers of a stage hold together, and the most they may.
struct PayloadBudget {
  std::uint64_t limit_bytes;
  std::uint64_t held_bytes = 0;
};

/// What a stage holds by default.
inline constexpr std::uint64_t kMaxHeldBytes = std::uint64_t{256} << 20;

class SampleBuffer {
 public:
  /// Makes the sample of a key again; throws Error if it cannot.
  using Rebuild = std::function<Sample(const RestoreKey& key)>;

  /// `inner` emitted the samples; both must outlive the buffer.
  SampleBuffer(Dataset& inner, PayloadBudget& budget);
  /// Of samples that `rebuild` can make; `budget` must outlive the buffer.
  SampleBuffer(Rebuild rebuild, PayloadBudget& budget)
      : rebuild_(std::move(rebuild)), budget_(budget) {}
  ~SampleBuffer() { clear(); }
  SampleBuffer(const SampleBuffer&) = delete;
  SampleBuffer& operator=(const SampleBuffer&) = delete;

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

  void push_back(Sample sample);
  /// Takes the first `count` samples out; requires that there are so many. Throws Error if one
  /// cannot be rebuilt; then all are still there.
  std::vector<Sample> take_front(std::size_t count);
  void clear();

  /// encode_keys() of the buffer; throws nothing but what memory allocation does.
  std::string save() const;
  /// Takes over saved keys; nothing is read. Throws Error (kCorruptData), then nothing has changed.
  void restore(std::string_view saved);

 private:
  struct Entry {
    Sample sample;  // nothing but the restore key unless held
    std::uint64_t payload_bytes = 0;
    bool is_held = false;
  };

  const Rebuild rebuild_;
  PayloadBudget& budget_;
  std::deque<Entry> entries_;
};

}  // namespace energon
