#include "energon/order/slice_order.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/hash.h"

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
        fmt::format("parallel_slices is {}, but must be at least 1", options_.parallel_slices));
  }
  if (shuffle.mode == Mode::kNone && options_.parallel_slices != 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("parallel_slices is {}, but must be 1 without shuffling",
                            options_.parallel_slices));
  }
  if (shuffle.mode == Mode::kEpochs && shuffle.epochs < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("shuffle_over_epochs is {}, but must be none, -1 or at least 1",
                            shuffle.epochs));
  }
  // The slices of all these epochs are shuffled as one list.
  constexpr std::int64_t kMostSlices = std::int64_t{1} << 26;
  if (shuffle.mode == Mode::kEpochs && slice_count() > 0 &&
      shuffle.epochs > kMostSlices / slice_count()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("shuffle_over_epochs is {} (including the multiplier of the dataset): with {} "
                    "slices, it must be at most {}; -1 draws with replacement",
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
      // The list contains every slice `epochs` times, so `place` in the permutation is slice
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

// With replacement, a search would never end if all samples of all slices are excluded.
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
    OpenSlice& place = open_[in_order ? 0 : rng_.choice(weights_)];
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

// --- State and configuration ---

std::int64_t SliceOrder::length(std::int64_t slice) const {
  return bounds_[static_cast<std::size_t>(slice) + 1] - bounds_[static_cast<std::size_t>(slice)];
}

State SliceOrder::save_state() const {
  std::vector<std::int64_t> open;
  for (const OpenSlice& place : open_) {
    open.push_back(place.slice);
    open.push_back(place.cursor);
  }
  return {"SliceOrder",
          {{"rng", rng_.save()},
           {"epoch_rng", epoch_rng_.save()},
           {"epoch_started", std::int64_t{epoch_started_}},
           {"pending_offset", pending_offset_},
           {"open", std::move(open)},
           {"epoch", epoch_},
           {"sample_count", sample_count_},
           {"epoch_sample_count", epoch_sample_count_}},
          {}};
}

bool SliceOrder::can_be_open(std::int64_t slice, std::int64_t sample) const {
  if (slice == kNoSlice) {
    return true;
  }
  if (slice < 0 || slice >= slice_count()) {
    return false;
  }
  const auto i = static_cast<std::size_t>(slice);
  return sample >= bounds_[i] && sample < bounds_[i + 1];
}

std::int64_t SliceOrder::most_pending() const {
  switch (options_.shuffle_over_epochs.mode) {
    case Mode::kReplacement:
      return options_.parallel_slices;
    case Mode::kEpochs:
      return slice_count() * options_.shuffle_over_epochs.epochs;
    case Mode::kNone:
      break;
  }
  return slice_count();
}

void SliceOrder::check_state(const State& state, std::vector<std::string>& differences) const {
  const std::size_t before = differences.size();
  const auto wrong = [&differences](const std::string& what) {
    differences.push_back("SliceOrder: " + what);
  };
  for (const char* name : {"rng", "epoch_rng"}) {
    try {
      Mt19937(0).restore(state.bytes(name));
    } catch (const Error& error) {
      wrong(error.message());
    }
  }
  const auto& open = state.integers("open");
  if (open.size() != 2 * open_.size()) {
    wrong(fmt::format("{} open slices, expected {}", open.size() / 2, open_.size()));
    return;
  }
  for (std::size_t i = 0; i < open.size(); i += 2) {
    if (const std::int64_t slice = open[i]; !can_be_open(slice, open[i + 1])) {
      wrong(fmt::format("open slice {} at sample {} does not exist", slice, open[i + 1]));
    }
  }
  if (const std::int64_t offset = state.integer("pending_offset");
      offset < 0 || offset > most_pending()) {
    wrong(fmt::format("{} slices opened, but there are only {}", offset, most_pending()));
  }
  if (const std::int64_t started = state.integer("epoch_started"); started != 0 && started != 1) {
    wrong(fmt::format("epoch_started is {}, but must be 0 or 1", started));
  }
  check_counts(state, {"epoch", "sample_count", "epoch_sample_count"}, differences);
  if (differences.size() == before) {
    check_progress(state, differences);
  }
}

// Checks that the counts follow from the open slices, and these from the generator of the epoch.
// Requires: each value is valid by itself.
void SliceOrder::check_progress(const State& state, std::vector<std::string>& differences) const {
  const auto wrong = [&differences](const std::string& what) {
    differences.push_back("SliceOrder: " + what);
  };
  const std::int64_t offset = state.integer("pending_offset");
  const std::int64_t samples = state.integer("epoch_sample_count");
  const auto& open = state.integers("open");
  std::vector<std::int64_t> open_slices;
  std::int64_t left = 0;  // samples left in the open slices
  for (std::size_t i = 0; i < open.size(); i += 2) {
    if (open[i] != kNoSlice) {
      open_slices.push_back(open[i]);
      left += bounds_[static_cast<std::size_t>(open[i]) + 1] - open[i + 1];
    }
  }
  if (samples > state.integer("sample_count")) {
    wrong(fmt::format("{} samples in this epoch, but only {} in total", samples,
                      state.integer("sample_count")));
  }
  if (state.integer("epoch_started") == 0) {
    if (offset != 0 || samples != 0 || !open_slices.empty()) {
      wrong(
          fmt::format("an epoch that has not started has {} slices opened, {} open and {} samples",
                      offset, open_slices.size(), samples));
    }
    return;
  }
  // Drawn with replacement: the opened slices are no longer known.
  if (options_.shuffle_over_epochs.mode != Mode::kReplacement && slice_count() != 0) {
    check_opened(state, open_slices, left, differences);
  }
}

// Checks that the generator of the epoch opened `open_slices`, which have `left` samples left.
void SliceOrder::check_opened(const State& state, const std::vector<std::int64_t>& open_slices,
                              std::int64_t left, std::vector<std::string>& differences) const {
  const auto wrong = [&differences](const std::string& what) {
    differences.push_back("SliceOrder: " + what);
  };
  const std::int64_t offset = state.integer("pending_offset");
  const std::int64_t samples = state.integer("epoch_sample_count");
  WorkerRng rng(0);
  rng.restore(state.bytes("epoch_rng"));
  const std::vector<std::int64_t> pending = draw_pending(rng);
  // How often each slice was opened, and the samples in these slices.
  std::vector<std::int64_t> times(static_cast<std::size_t>(slice_count()), 0);
  std::int64_t opened = 0;
  for (std::int64_t i = 0; i < offset; ++i) {
    ++times[static_cast<std::size_t>(pending[static_cast<std::size_t>(i)])];
    opened += length(pending[static_cast<std::size_t>(i)]);
  }
  for (const std::int64_t slice : open_slices) {
    if (--times[static_cast<std::size_t>(slice)] < 0) {
      wrong(fmt::format("slice {} is open, but was not opened in this epoch", slice));
      return;
    }
  }
  if (samples != opened - left) {
    wrong(fmt::format("{} samples in this epoch, but the opened slices yielded {}", samples,
                      opened - left));
  }
  if (offset < std::ssize(pending) && open_slices.size() < open_.size()) {
    wrong(fmt::format("{} slices are open, expected {}", open_slices.size(), open_.size()));
  }
}

void SliceOrder::apply_state(const State& state) {
  rng_.restore(state.bytes("rng"));
  epoch_rng_.restore(state.bytes("epoch_rng"));
  epoch_started_ = state.integer("epoch_started") != 0;
  pending_offset_ = state.integer("pending_offset");
  pending_.clear();
  if (epoch_started_ && slice_count() > 0) {
    WorkerRng replay = epoch_rng_;
    pending_ = draw_pending(replay);
  }
  const auto& open = state.integers("open");
  for (std::size_t i = 0; i < open_.size(); ++i) {
    open_[i] = {open[2 * i], open[2 * i + 1]};
  }
  epoch_ = state.integer("epoch");
  sample_count_ = state.integer("sample_count");
  epoch_sample_count_ = state.integer("epoch_sample_count");
  update_weights();
}

Config SliceOrder::config() const {
  return {{"type", "SliceOrder"},
          {"slices", to_hex(xxh3_64(std::as_bytes(std::span(bounds_))))},
          {"samples", bounds_.back() - bounds_.front()},
          {"excluded", to_hex(xxh3_64(std::as_bytes(std::span(excluded_))))},
          {"shuffle_over_epochs", to_string(options_.shuffle_over_epochs)},
          {"parallel_slices", options_.parallel_slices},
          {"seed", options_.seed}};
}

}  // namespace energon
