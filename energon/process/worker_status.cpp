#include "energon/process/worker_status.h"

#include "io/concurrency.h"

namespace energon {

void WorkerStatus::advance() { add_relaxed(progress, 1); }

void WorkerStatus::set_item(WorkItem item) {
  const std::uint64_t odd = item_sequence.load(std::memory_order_relaxed) | 1;  // only writer
  item_sequence.store(odd, std::memory_order_relaxed);        // ordered by the releases that follow
  item_first.store(item.first, std::memory_order_release);    // after `odd`
  item_second.store(item.second, std::memory_order_release);  // after `odd`
  item_sequence.store(odd + 1, std::memory_order_release);    // after both
}

std::uint64_t WorkerStatus::progress_count() const { return load_relaxed(progress); }
std::uint64_t WorkerStatus::bytes_read_count() const { return load_relaxed(bytes_read); }

std::optional<WorkItem> WorkerStatus::item() const {
  const std::uint64_t before = item_sequence.load(std::memory_order_acquire);  // item after it
  if (before == 0 || before % 2 != 0) {
    return std::nullopt;
  }
  const WorkItem item{item_first.load(std::memory_order_acquire),    // before the second look
                      item_second.load(std::memory_order_acquire)};  // likewise
  if (item_sequence.load(std::memory_order_relaxed) != before) {     // kept last by the acquires
    return std::nullopt;
  }
  return item;
}

}  // namespace energon
