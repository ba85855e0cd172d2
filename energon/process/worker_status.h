// What a worker is doing, in a few words of shared memory that outlive it.
//
// For messages about hangs and deaths: how far it got, and on which item it was. Bytes:
// docs/formats/shared_memory.md.

#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace energon {

/// What a worker works on, in the loader's own coding.
struct WorkItem {
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  bool operator==(const WorkItem&) const = default;
};

/// Lies in shared memory, zero at first. Written by the worker's main thread, read by anyone.
struct WorkerStatus {
  alignas(64) std::atomic<std::uint64_t> progress;  // counts whatever the loader counts
  std::atomic<std::uint64_t> item_sequence;         // odd while the item changes; 0: no item yet
  std::atomic<std::uint64_t> item_first;
  std::atomic<std::uint64_t> item_second;

  void advance();
  void set_item(WorkItem item);

  std::uint64_t progress_count() const;
  /// Nothing if no item was set, or the worker is just changing it (or died changing it).
  std::optional<WorkItem> item() const;
};

static_assert(sizeof(WorkerStatus) == 64);

}  // namespace energon
