// What a worker is doing, in a few words of shared memory that can be read after its death.
//
// Used in messages about hangs and deaths: the worker's progress and its current item. Layout:
// docs/formats/shared_memory.md.

#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace energon {

/// The item that a worker is working on. The loader defines its encoding.
struct WorkItem {
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  bool operator==(const WorkItem&) const = default;
};

/// In shared memory, initially zero. Written by the worker's main thread, except for `bytes_read`;
/// read by any process.
struct WorkerStatus {
  alignas(64) std::atomic<std::uint64_t> progress;  // the loader defines what is counted
  std::atomic<std::uint64_t> item_sequence;         // odd while the item changes; 0: no item yet
  std::atomic<std::uint64_t> item_first;
  std::atomic<std::uint64_t> item_second;
  std::atomic<std::uint64_t> bytes_read;  // from files, added by any thread of the worker

  void advance();
  void set_item(WorkItem item);

  std::uint64_t progress_count() const;
  std::uint64_t bytes_read_count() const;
  /// nullopt if no item was set, or if the worker is changing it now (or died while changing it).
  std::optional<WorkItem> item() const;
};

static_assert(sizeof(WorkerStatus) == 64);

}  // namespace energon
