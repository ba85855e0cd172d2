#include "energon/read/shared_budget.h"

#include <algorithm>

namespace energon {
namespace {

// More is dropped at a time than is needed: one part in so many of all.
constexpr std::uint64_t kDroppedPart = 16;

// A limit that was lowered rises by one part in so many at a time.
constexpr std::uint64_t kRegrownPart = 8;

}  // namespace

void SharedBudget::make_room(std::uint64_t cost) {
  if (held_ + cost > limit_ && grow_) {
    full_limit_ = std::max(full_limit_, std::exchange(grow_, nullptr)());
    limit_ = full_limit_;
  }
  if (held_ + cost > limit_ && limit_ < full_limit_ && added_ >= limit_) {
    limit_ = std::min(full_limit_, limit_ + std::max<std::uint64_t>(limit_ / kRegrownPart, 1));
    added_ = 0;
  }
  if (held_ + cost > limit_) {
    drop(held_ + cost - limit_);
  }
}

bool SharedBudget::shrink() {
  const std::uint64_t before = held_;
  drop(1);
  limit_ = std::max<std::uint64_t>(held_, 1);
  added_ = 0;
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
