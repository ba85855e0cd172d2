#include "energon/order/slice_order.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
using Mode = ShuffleOverEpochs::Mode;

SliceOrder::SliceOrder(std::vector<std::int64_t> bounds, std::vector<std::int64_t> excluded,
                       const SliceOrderOptions& options)
    : bounds_(std::move(bounds)),
      excluded_(std::move(excluded)),
      options_(options),
      rng_(options.seed),
      epoch_rng_(options.seed),
      open_(static_cast<std::size_t>(std::max<std::int64_t>(options.parallel_slices, 1)),
            {kNoSlice, 0}) {
  if (bounds_.empty() ||
      std::adjacent_find(bounds_.begin(), bounds_.end(), std::greater_equal<>()) != bounds_.end()) {
    throw Error(ErrorCode::kInternal, "slice bounds are not strictly increasing");
  }
  const ShuffleOverEpochs& shuffle = options_.shuffle_over_epochs;
  if (options_.parallel_slices < 1) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("parallel_slices is {}, it must be at least 1", options_.parallel_slices));
  }
  if (shuffle.mode == Mode::kNone && options_.parallel_slices != 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("parallel_slices is {}, without shuffling it must be 1",
                            options_.parallel_slices));
  }
  if (shuffle.mode == Mode::kEpochs && shuffle.epochs < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("shuffle_over_epochs is {}, it must be none, -1 or at least 1",
                            shuffle.epochs));
  }
  // The list of slices of all these epochs is drawn at once.
  constexpr std::int64_t kMostSlices = std::int64_t{1} << 26;
  if (shuffle.mode == Mode::kEpochs && slice_count() > 0 &&
      shuffle.epochs > kMostSlices / slice_count()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("shuffle_over_epochs is {} (with the multiplier of the dataset): of {} "
                            "slices it must be at most {}; -1 draws with replacement",
                            shuffle.epochs, slice_count(), kMostSlices / slice_count()));
  }
}

std::vector<std::int64_t> SliceOrder::draw_pending(WorkerRng& rng) const {
  const ShuffleOverEpochs& shuffle = options_.shuffle_over_epochs;
  const std::int64_t count = slice_count();
  std::vector<std::int64_t> pending;
  switch (shuffle.mode) {
    case Mode::kNone:
      pending.resize(static_cast<std::size_t>(count));
      std::iota(pending.begin(), pending.end(), std::int64_t{0});
      break;
    case Mode::kEpochs:
      // The list has every slice `epochs` times, so `place` in the permutation stands for slice
      // place % count.
      pending = rng.permutation(count * shuffle.epochs);
      for (std::int64_t& place : pending) {
        place %= count;
      }
      break;
    case Mode::kReplacement:
      for (std::int64_t i = 0; i < options_.parallel_slices; ++i) {
        pending.push_back(rng.randbelow(count));
      }
      break;
  }
  return pending;
}

void SliceOrder::start_epoch() {
  epoch_started_ = true;
  epoch_rng_ = rng_.position();
  pending_offset_ = 0;
  if (slice_count() > 0) {
    check_has_samples();
    pending_ = draw_pending(rng_);
  }
  for (OpenSlice& place : open_) {
    refill(place);
  }
  update_weights();
}

// With replacement, a search among slices whose samples are all excluded would never end.
void SliceOrder::check_has_samples() const {
  const auto begin = std::lower_bound(excluded_.begin(), excluded_.end(), bounds_.front());
  const auto end = std::lower_bound(begin, excluded_.end(), bounds_.back());
  if (options_.shuffle_over_epochs.mode == Mode::kReplacement &&
      end - begin == bounds_.back() - bounds_.front()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("all {} samples of this share of the data are excluded",
                            bounds_.back() - bounds_.front()));
  }
}

bool SliceOrder::refill(OpenSlice& place) {
  if (pending_offset_ < static_cast<std::int64_t>(pending_.size())) {
    place.slice = pending_[static_cast<std::size_t>(pending_offset_++)];
  } else if (options_.shuffle_over_epochs.mode == Mode::kReplacement && slice_count() > 0) {
    place.slice = rng_.randbelow(slice_count());
  } else {
    place = {kNoSlice, 0};
    return false;
  }
  place.cursor = bounds_[static_cast<std::size_t>(place.slice)];
  return true;
}

void SliceOrder::update_weights() {
  std::vector<float> weights;
  for (const OpenSlice& place : open_) {
    const auto slice = static_cast<std::size_t>(place.slice);
    weights.push_back(
        place.slice == kNoSlice ? 0.0F : static_cast<float>(bounds_[slice + 1] - bounds_[slice]));
  }
  weights_ = CumulativeWeights(weights);
}

bool SliceOrder::excluded(std::int64_t index) const {
  return std::binary_search(excluded_.begin(), excluded_.end(), index);
}

std::optional<SampleRef> SliceOrder::next() {
  if (!epoch_started_) {
    start_epoch();
  }
  while (weights_.total() > 0) {
    const bool in_order = options_.shuffle_over_epochs.mode == Mode::kNone;
    OpenSlice& place = open_[in_order ? 0 : rng_.choice(weights_, ties_)];
    const std::int64_t index = place.cursor++;
    if (place.cursor == bounds_[static_cast<std::size_t>(place.slice) + 1]) {
      refill(place);
      update_weights();
    }
    ++sample_count_;
    ++epoch_sample_count_;
    if (excluded_.empty() || !excluded(index)) {
      return SampleRef{index, options_.leaf, static_cast<std::uint32_t>(epoch_)};
    }
  }
  return std::nullopt;
}

void SliceOrder::next_epoch() {
  epoch_started_ = false;
  ++epoch_;
  epoch_sample_count_ = 0;
  pending_.clear();
  pending_offset_ = 0;
  std::fill(open_.begin(), open_.end(), OpenSlice{kNoSlice, 0});
  update_weights();
}

std::optional<std::int64_t> SliceOrder::size() const {
  const ShuffleOverEpochs& shuffle = options_.shuffle_over_epochs;
  const std::int64_t samples = bounds_.back() - bounds_.front();
  if (shuffle.mode == Mode::kReplacement) {
    return samples == 0 ? std::optional<std::int64_t>(0) : std::nullopt;
  }
  return shuffle.mode == Mode::kEpochs ? samples * shuffle.epochs : samples;
}

bool SliceOrder::list_ranges(std::vector<LeafRange>& ranges) const {
  ranges.push_back({options_.leaf, bounds_.front(), bounds_.back()});
  return true;
}

}  // namespace energon
