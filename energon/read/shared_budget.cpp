#include "energon/read/shared_budget.h"

#include <algorithm>

namespace energon {
namespace {

// More is dropped at a time than is needed: one part in so many of all.
constexpr std::uint64_t kDroppedPart = 16;

}  // namespace

void SharedBudget::make_room(std::uint64_t cost) {
  if (held_ + cost > limit_ && grow_) {
    limit_ = std::max(limit_, std::exchange(grow_, nullptr)());
  }
  if (held_ + cost > limit_) {
    drop(held_ + cost - limit_);
  }
}

bool SharedBudget::shrink() {
  const std::uint64_t before = held_;
  drop(1);
  limit_ = std::max<std::uint64_t>(held_, 1);
  return held_ < before;
}

void SharedBudget::drop(std::uint64_t cost) {
  std::vector<Held> held;
  for (const Holder* const holder : holders_) {
    holder->list(held);
  }
  std::erase_if(held, [this](const Held& one) { return one.last_use >= now_; });
  std::sort(held.begin(), held.end(),
            [](const Held& a, const Held& b) { return a.last_use < b.last_use; });
  const std::uint64_t wanted = std::max(cost, held_ / kDroppedPart);
  std::uint64_t end = 0;  // of the times that are dropped
  std::uint64_t sum = 0;
  for (auto one = held.begin(); one != held.end() && sum < wanted; ++one) {
    end = one->last_use + 1;
    sum += one->cost;
    ++drops_;
  }
  for (Holder* const holder : holders_) {
    holder->drop_before(end);
  }
}

}  // namespace energon
