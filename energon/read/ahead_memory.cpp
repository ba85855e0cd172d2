#include "energon/read/ahead_memory.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace energon {
namespace {

constexpr std::size_t kMostSpare = 16;  // of one size

}  // namespace

std::uint64_t AheadMemory::block_size() const {
  // Half of the limit, so that slices that begin do not take the blocks of others.
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

}  // namespace energon
