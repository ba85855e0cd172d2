#include "energon/read/leaf_readers.h"

#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "energon/stage/dataset.h"

namespace energon {
namespace {

constexpr std::uint64_t kMostTars = 65'536;
constexpr std::uint64_t kMostLeft = 1024;  // for the rest of the program

std::uint64_t left_of(std::uint64_t limit) { return std::min(limit / 4, kMostLeft); }

std::uint64_t tars_of(std::uint64_t limit) {
  return std::clamp<std::uint64_t>(limit - left_of(limit), 1, kMostTars);
}

rlimit open_file_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

std::uint64_t raise_limit() {
  rlimit limit = open_file_limit();
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, kMostTars + kMostLeft);
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  return tars_of(open_file_limit().rlim_cur);
}

constexpr std::size_t kMostSpare = 16;  // blocks per size

// More is dropped at a time than is needed: the limit divided by this.
constexpr std::uint64_t kDroppedPart = 16;

// A lowered limit rises in steps of the limit divided by this.
constexpr std::uint64_t kRegrownPart = 8;

}  // namespace

std::shared_ptr<LeafReaders> make_leaf_readers() { return std::make_shared<LeafReaders>(); }

std::shared_ptr<LeafReader> LeafReaders::of(const std::shared_ptr<const LeafDataset>& leaf) {
  std::shared_ptr<LeafReader>& reader = readers_[leaf];
  if (!reader) {
    reader = leaf->open_reader();
    reader->share_budgets(budgets_);
    if (helper_) {
      reader->share_reads(helper_);
    }
  }
  return reader;
}

ReadBudgets::ReadBudgets()
    : tars(std::make_shared<SharedBudget>(tars_of(open_file_limit().rlim_cur), raise_limit)),
      indexes(std::make_shared<SharedBudget>(kIndexBytes)),
      ahead(std::make_shared<AheadMemory>(kAheadBytes)) {}

std::uint64_t AheadMemory::block_size() const {
  // Half of the limit, so that new slices do not take the blocks of others.
  const std::uint64_t share = budget_.limit() / 2 / std::max<std::uint64_t>(budget_.count(), 1);
  return std::bit_floor(std::clamp(share, kSmallestBlock, kLargestBlock));
}

AheadMemory::Block AheadMemory::take(std::uint64_t size) {
  budget_.add(size);
  if (std::vector<Block>& spare = spare_[size]; !spare.empty()) {
    Block block = std::move(spare.back());
    spare.pop_back();
    return block;
  }
  return {std::make_unique_for_overwrite<std::byte[]>(size), size};
}

void AheadMemory::keep(Block block) {
  if (std::vector<Block>& spare = spare_[block.size]; spare.size() < kMostSpare) {
    spare.push_back(std::move(block));
  }
}

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
  std::vector<Usage> held;
  for (const Holder* const holder : holders_) {
    holder->list(held);
  }
  std::erase_if(held, [this](const Usage& one) { return one.last_use >= now_; });
  std::sort(held.begin(), held.end(),
            [](const Usage& a, const Usage& b) { return a.last_use < b.last_use; });
  const std::uint64_t wanted = std::max(cost, held_ / kDroppedPart);
  std::uint64_t end = 0;  // items used before this time are dropped
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
