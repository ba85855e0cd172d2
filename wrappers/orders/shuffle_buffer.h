// Yields the references of an order in random sequence, drawn from a buffer of bounded size.
//
// The buffer is filled to its size before each draw until the inner order ends; then it is drained.
// The draws are the same as Energon's: randbelow() gives the position, and the other references
// keep their order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "energon/order/order.h"
#include "energon/order/rng.h"

namespace energon {

/// A list from which elements can be removed at any position, in time of about the square root of
/// its length.
///
/// Elements keep their order. They are stored in blocks of at most kBlock elements. Removing one
/// walks over the block sizes and moves half a block on average; a plain vector would move half the
/// list (8 MB for each draw from a million references).
template <class Element>
class IndexedList {
 public:
  std::size_t size() const { return size_; }

  void push_back(const Element& element) {
    if (blocks_.empty() || blocks_.back().size() == kBlock) {
      blocks_.emplace_back().reserve(kBlock);
    }
    blocks_.back().push_back(element);
    ++size_;
  }

  /// Removes and returns the element at `position`. Requires: position < size().
  Element take(std::size_t position) {
    std::size_t block = 0;
    while (position >= blocks_[block].size()) {
      position -= blocks_[block++].size();
    }
    auto& elements = blocks_[block];
    Element element = elements[position];
    elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(position));
    --size_;
    if (elements.empty()) {
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(block));
    } else if (block + 1 < blocks_.size() &&
               elements.size() + blocks_[block + 1].size() <= kBlock / 2) {
      // Join sparse neighbors, so that the number of blocks stays proportional to the number of
      // elements.
      elements.insert(elements.end(), blocks_[block + 1].begin(), blocks_[block + 1].end());
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(block) + 1);
    }
    return element;
  }

  template <class Visitor>
  void for_each_block(Visitor visitor) const {
    for (const auto& block : blocks_) {
      visitor(block);
    }
  }

  void clear() {
    blocks_.clear();
    size_ = 0;
  }

 private:
  static constexpr std::size_t kBlock = 1024;

  std::vector<std::vector<Element>> blocks_;
  std::size_t size_ = 0;
};

class ShuffleBuffer final : public Order {
 public:
  /// Takes ownership of `inner`. Buffers `size` references (16 bytes each), at least 1. `seed` is
  /// worker_seed(). Throws Error (kInvalidArgument).
  ShuffleBuffer(std::unique_ptr<Order> inner, std::int64_t size, std::uint32_t seed);

  std::optional<SampleRef> next() override;
  void next_epoch() override;
  std::optional<std::int64_t> size() const override { return inner_->size(); }
  bool list_ranges(std::vector<LeafRange>& ranges) const override {
    return inner_->list_ranges(ranges);
  }
  bool has_runs() const override { return false; }
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  void check_references(std::span<const SampleRef> refs,
                        std::vector<std::string>& differences) const;

  const std::unique_ptr<Order> inner_;
  const std::int64_t size_;

  // Saved state.
  WorkerRng rng_;
  IndexedList<SampleRef> buffer_;
};

}  // namespace energon
