// Memory of what readers have read ahead, for all readers of a process together.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "energon/read/shared_budget.h"

namespace energon {

/// Not thread-safe.
class AheadMemory {
 public:
  static constexpr std::uint64_t kSmallestBlock = std::uint64_t{4} << 10;
  static constexpr std::uint64_t kLargestBlock = std::uint64_t{64} << 10;

  struct Block {
    std::unique_ptr<std::byte[]> bytes = nullptr;
    std::uint64_t size = 0;
  };

  /// At most `limit` bytes are in blocks at a time, or one block.
  explicit AheadMemory(std::uint64_t limit) : budget_(limit) {}

  /// Its holders drop blocks when others need the memory.
  SharedBudget& budget() { return budget_; }

  /// The size of blocks while as many are in use as now: a power of two.
  std::uint64_t block_size() const;
  /// Room for it was made.
  Block take(std::uint64_t size);
  void give(Block block) {
    budget_.remove(block.size);
    keep(std::move(block));
  }
  /// The second part of give(), for a block that was removed from the budget.
  void keep(Block block);

 private:
  SharedBudget budget_;
  std::map<std::uint64_t, std::vector<Block>> spare_;  // by size; not in the budget
};

}  // namespace energon
