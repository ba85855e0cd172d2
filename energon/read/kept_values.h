// Values by number that a reader keeps within a SharedBudget, such as the open tars of a dataset.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "energon/read/shared_budget.h"

namespace energon {

/// Not thread-safe. A value that is found or kept is valid until the budget's time has advanced and
/// another value is kept.
template <class Value>
class KeptValues final : private SharedBudget::Holder {
 public:
  /// For the numbers 0 … count - 1. `most`: so many at a time, whatever the budget allows.
  KeptValues(std::shared_ptr<SharedBudget> budget, std::size_t count,
             std::optional<std::size_t> most = std::nullopt)
      : budget_(std::move(budget)), most_(most), entries_(count) {
    budget_->join(*this);
  }
  KeptValues(const KeptValues&) = delete;
  KeptValues& operator=(const KeptValues&) = delete;
  ~KeptValues() {
    drop_before(budget_->now() + 1);
    budget_->leave(*this);
  }

  SharedBudget& budget() const { return *budget_; }
  /// How many can be kept at one time of the budget; at least 1.
  std::size_t capacity() const {
    const std::size_t capacity =
        std::min<std::uint64_t>(budget_->limit(), most_.value_or(budget_->limit()));
    return std::max<std::size_t>(capacity, 1);
  }

  /// Begins to load a value into the CPU's cache, so that find() need not wait for it.
  void prefetch(std::size_t number) const {
    constexpr std::size_t kCacheLine = 64;
    const auto* const entry = reinterpret_cast<const std::byte*>(entries_[number].get());
    for (std::size_t at = 0; entry != nullptr && at < sizeof(Entry); at += kCacheLine) {
      __builtin_prefetch(entry + at, 1);
    }
  }

  /// Null if no such value is kept. Counts as no use.
  const Value* peek(std::size_t number) const {
    const Entry* const entry = entries_[number].get();
    return entry == nullptr ? nullptr : &entry->value;
  }

  /// Null if no such value is kept.
  Value* find(std::size_t number) {
    Entry* const entry = entries_[number].get();
    if (entry == nullptr) {
      return nullptr;
    }
    entry->last_use = budget_->now();
    return &entry->value;
  }

  /// Makes room for a value; call it before the value is made.
  void make_room(std::uint64_t cost) {
    if (most_ && !kept_.empty() && kept_.size() >= *most_) {
      drop_oldest();
    }
    budget_->make_room(cost);
  }

  /// Requires: no value of this number is kept.
  Value& keep(std::size_t number, std::uint64_t cost, Value value) {
    budget_->add(cost);
    entries_[number] = std::make_unique<Entry>(Entry{budget_->now(), cost, std::move(value)});
    kept_.push_back(number);
    return entries_[number]->value;
  }

 private:
  struct Entry {
    std::uint64_t last_use;
    std::uint64_t cost;
    Value value;
  };

  void list(std::vector<SharedBudget::Held>& held) const override {
    for (const std::size_t number : kept_) {
      held.push_back({entries_[number]->last_use, entries_[number]->cost});
    }
  }

  void drop_before(std::uint64_t time) override {
    std::erase_if(kept_, [&](std::size_t number) {
      if (entries_[number]->last_use >= time) {
        return false;
      }
      budget_->remove(entries_[number]->cost);
      entries_[number].reset();
      return true;
    });
  }

  // Not one that is used at this time.
  void drop_oldest() {
    const auto oldest = std::min_element(kept_.begin(), kept_.end(), [&](auto a, auto b) {
      return entries_[a]->last_use < entries_[b]->last_use;
    });
    drop_before(std::min(entries_[*oldest]->last_use + 1, budget_->now()));
  }

  const std::shared_ptr<SharedBudget> budget_;
  const std::optional<std::size_t> most_;
  std::vector<std::unique_ptr<Entry>> entries_;  // null: not kept
  std::vector<std::size_t> kept_;                // the numbers of the others
};

}  // namespace energon
