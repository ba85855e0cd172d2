// The readers of one process, one per leaf, shared by the pipelines of its logical shards, and the
// limits on their resources: open tars, indexes, bytes read ahead.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "energon/read/leaf_dataset.h"
#include "energon/read/read_helper.h"

namespace energon {

// A limit on a resource that all readers of a process share: open tars, indexes, bytes read ahead.
//
// Each holder keeps its own items with the time of their last use. At the limit, the least recently
// used items of all holders are dropped, several at a time, to amortize the search for them.

/// Used by the thread that drives the pipelines.
class SharedBudget {
 public:
  struct Usage {
    std::uint64_t last_use = 0;
    std::uint64_t cost = 0;
  };

  class Holder {
   public:
    /// Appends all items held.
    virtual void list(std::vector<Usage>& held) const = 0;
    /// Drops items last used before `time`.
    virtual void drop_before(std::uint64_t time) = 0;

   protected:
    ~Holder() = default;
  };

  /// `grow` is called once for a larger limit before anything is dropped. If unset, the limit is
  /// fixed.
  explicit SharedBudget(std::uint64_t limit, std::function<std::uint64_t()> grow = nullptr)
      : limit_(limit), full_limit_(limit), grow_(std::move(grow)) {}
  SharedBudget(const SharedBudget&) = delete;
  SharedBudget& operator=(const SharedBudget&) = delete;

  /// `holder` must leave before it is destroyed.
  void join(Holder& holder) { holders_.push_back(&holder); }
  void leave(Holder& holder) { std::erase(holders_, &holder); }

  std::uint64_t limit() const { return limit_; }
  /// The total cost and the number of all items held.
  std::uint64_t held() const { return held_; }
  std::uint64_t count() const { return count_; }
  /// Number of times that items were dropped at the limit.
  std::uint64_t drops() const { return drops_; }

  /// The time for Held::last_use.
  std::uint64_t now() const { return now_; }
  /// Advances the time. Items used before may be dropped from now on; items used at the current
  /// time are kept.
  void advance() { ++now_; }

  /// Makes room for `cost` by dropping items. Items used at the current time are never dropped, so
  /// the limit is exceeded if they alone exceed it.
  void make_room(std::uint64_t cost);
  void add(std::uint64_t cost) {
    held_ += cost;
    added_ += cost;
    ++count_;
  }
  /// Reports that a holder has dropped an item.
  void remove(std::uint64_t cost) {
    held_ -= cost;
    --count_;
  }

  /// Call this when the system refuses a resource below the limit. Lowers the limit below the
  /// current use; it then rises again by an eighth each time that this much was added without a
  /// refusal. Returns false if nothing can be dropped.
  bool shrink();

 private:
  void drop(std::uint64_t cost);

  std::uint64_t limit_;
  std::uint64_t full_limit_;             // before shrink()
  std::uint64_t added_ = 0;              // since the limit last changed
  std::function<std::uint64_t()> grow_;  // empty after its call
  std::uint64_t held_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t drops_ = 0;
  std::uint64_t now_ = 1;
  std::vector<Holder*> holders_;
};

// Numbered values that a reader keeps within a SharedBudget, such as the open tars of a dataset.

/// Not thread-safe. A value that was found or kept stays valid until the budget's time has advanced
/// and another value is kept.
template <class Value>
class ValueCache final : private SharedBudget::Holder {
 public:
  /// For the numbers 0 … count - 1. `most` limits the values at a time in addition to the budget.
  ValueCache(std::shared_ptr<SharedBudget> budget, std::size_t count,
             std::optional<std::size_t> most = std::nullopt)
      : budget_(std::move(budget)), most_(most), entries_(count) {
    budget_->join(*this);
  }
  ValueCache(const ValueCache&) = delete;
  ValueCache& operator=(const ValueCache&) = delete;
  ~ValueCache() {
    drop_before(budget_->now() + 1);
    budget_->leave(*this);
  }

  SharedBudget& budget() const { return *budget_; }
  /// Number of values that can be kept at one time of the budget; at least 1.
  std::size_t capacity() const {
    const std::size_t capacity =
        std::min<std::uint64_t>(budget_->limit(), most_.value_or(budget_->limit()));
    return std::max<std::size_t>(capacity, 1);
  }

  /// Prefetches a value into the CPU's cache for find().
  void prefetch(std::size_t number) const {
    constexpr std::size_t kCacheLine = 64;
    const auto* const entry = reinterpret_cast<const std::byte*>(entries_[number].get());
    for (std::size_t at = 0; entry != nullptr && at < sizeof(Entry); at += kCacheLine) {
      __builtin_prefetch(entry + at, 1);
    }
  }

  /// Null if the value is not kept. Does not count as use.
  const Value* peek(std::size_t number) const {
    const Entry* const entry = entries_[number].get();
    return entry == nullptr ? nullptr : &entry->value;
  }

  /// Null if the value is not kept.
  Value* find(std::size_t number) {
    Entry* const entry = entries_[number].get();
    if (entry == nullptr) {
      return nullptr;
    }
    entry->last_use = budget_->now();
    return &entry->value;
  }

  /// Makes room for a value. Call before creating the value.
  void make_room(std::uint64_t cost) {
    if (most_ && !loaded_.empty() && loaded_.size() >= *most_) {
      drop_oldest();
    }
    budget_->make_room(cost);
  }

  /// Requires: no value of this number is kept.
  Value& keep(std::size_t number, std::uint64_t cost, Value value) {
    budget_->add(cost);
    entries_[number] = std::make_unique<Entry>(Entry{budget_->now(), cost, std::move(value)});
    loaded_.push_back(number);
    return entries_[number]->value;
  }

 private:
  struct Entry {
    std::uint64_t last_use;
    std::uint64_t cost;
    Value value;
  };

  void list(std::vector<SharedBudget::Usage>& held) const override {
    for (const std::size_t number : loaded_) {
      held.push_back({entries_[number]->last_use, entries_[number]->cost});
    }
  }

  void drop_before(std::uint64_t time) override {
    std::erase_if(loaded_, [&](std::size_t number) {
      if (entries_[number]->last_use >= time) {
        return false;
      }
      budget_->remove(entries_[number]->cost);
      entries_[number].reset();
      return true;
    });
  }

  // Never a value used at the current time.
  void drop_oldest() {
    const auto oldest = std::min_element(loaded_.begin(), loaded_.end(), [&](auto a, auto b) {
      return entries_[a]->last_use < entries_[b]->last_use;
    });
    drop_before(std::min(entries_[*oldest]->last_use + 1, budget_->now()));
  }

  const std::shared_ptr<SharedBudget> budget_;
  const std::optional<std::size_t> most_;
  std::vector<std::unique_ptr<Entry>> entries_;  // null if not kept
  std::vector<std::size_t> loaded_;              // the numbers of the others
};

// Read-ahead memory of all readers of a process.

/// Not thread-safe.
class AheadMemory {
 public:
  static constexpr std::uint64_t kSmallestBlock = std::uint64_t{4} << 10;
  static constexpr std::uint64_t kLargestBlock = std::uint64_t{64} << 10;

  struct Block {
    std::unique_ptr<std::byte[]> bytes = nullptr;
    std::uint64_t size = 0;
  };

  /// Limits the blocks to `limit` bytes in total, or to a single block.
  explicit AheadMemory(std::uint64_t limit) : budget_(limit) {}

  /// The budget whose holders drop blocks when others need the memory.
  SharedBudget& budget() { return budget_; }

  /// The block size for the current number of blocks: a power of two.
  std::uint64_t block_size() const;
  /// Requires: room was made for the block.
  Block take(std::uint64_t size);
  void give(Block block) {
    budget_.remove(block.size);
    keep(std::move(block));
  }
  /// The second part of give(), for a block already removed from the budget.
  void keep(Block block);

 private:
  SharedBudget budget_;
  std::map<std::uint64_t, std::vector<Block>> spare_;  // by size; not in the budget
};

// The resource limits of the readers of one process.
//
// Descriptors: a tar that is read again soon should still be open. So readers keep as many tars
// open as the limit of the process allows, up to 65,536. A quarter of the limit, at most 1,024
// descriptors, is left to the rest of the program. The soft limit (`ulimit -n`) is raised to the
// hard limit when a reader first needs more. If even more tars are read in rotation, the least
// recently used ones are closed and later reopened.

/// One for all readers of a process (LeafReaders).
struct ReadBudgets {
  /// Bytes of indexes and checksums in memory: those of 16 million samples or more.
  static constexpr std::uint64_t kIndexBytes = std::uint64_t{256} << 20;
  /// Bytes read ahead.
  static constexpr std::uint64_t kAheadBytes = std::uint64_t{64} << 20;

  /// Open tars, by number.
  std::shared_ptr<SharedBudget> tars;
  std::shared_ptr<SharedBudget> indexes;
  std::shared_ptr<AheadMemory> ahead;

  ReadBudgets();
};

/// The readers of a process, one per leaf, which share one ReadBudgets. Created after the fork and
/// used only by the thread that drives the pipelines.
class LeafReaders {
 public:
  /// If `helper` is not null, readers share large reads with its thread. Only a worker may pass
  /// one.
  explicit LeafReaders(std::shared_ptr<ReadHelper> helper = nullptr) : helper_(std::move(helper)) {}

  /// The reader of `leaf`, opened on the first call.
  std::shared_ptr<LeafReader> of(const std::shared_ptr<const LeafDataset>& leaf);
  const ReadBudgets& budgets() const { return budgets_; }

 private:
  const ReadBudgets budgets_;
  const std::shared_ptr<ReadHelper> helper_;
  // Keeps each leaf alive, so that its address is not reused.
  std::map<std::shared_ptr<const LeafDataset>, std::shared_ptr<LeafReader>> readers_;
};

}  // namespace energon
