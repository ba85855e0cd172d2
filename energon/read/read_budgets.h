// What the readers of one process may hold together.
//
// Descriptors: a tar that is read again soon should still be open. So readers keep as many tars
// open as the limit of the process allows, up to 65,536. A quarter of the limit, at most 1,024
// descriptors, is left to the rest of the program. The soft limit (`ulimit -n`) is raised to the
// hard limit when a reader first needs more. If even more tars are read in rotation, the least
// recently used ones are closed and later reopened.

#pragma once

#include <cstdint>
#include <memory>

#include "energon/read/ahead_memory.h"
#include "energon/read/shared_budget.h"

namespace energon {

/// One for all readers of a process (energon/read/leaf_readers.h).
struct ReadBudgets {
  /// Bytes of indexes and checksums in memory: those of 16 million samples or more.
  static constexpr std::uint64_t kIndexBytes = std::uint64_t{256} << 20;
  /// Bytes that were read ahead.
  static constexpr std::uint64_t kAheadBytes = std::uint64_t{64} << 20;

  /// Open tars, by number.
  std::shared_ptr<SharedBudget> tars;
  std::shared_ptr<SharedBudget> indexes;
  std::shared_ptr<AheadMemory> ahead;

  ReadBudgets();
};

}  // namespace energon
