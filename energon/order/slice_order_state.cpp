// The state and the configuration of a SliceOrder: saved, checked, applied.

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/order/slice_order.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

using Mode = ShuffleOverEpochs::Mode;

std::string mode_name(const ShuffleOverEpochs& shuffle) {
  switch (shuffle.mode) {
    case Mode::kNone:
      return "none";
    case Mode::kEpochs:
      return std::to_string(shuffle.epochs);
    case Mode::kReplacement:
      return "-1";
  }
  return "unknown";
}

}  // namespace

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
           {"epoch_sample_count", epoch_sample_count_},
           {"ties", static_cast<std::int64_t>(ties_)}},
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
    wrong(fmt::format("{} slices opened, there are {}", offset, most_pending()));
  }
  for (const char* name : {"epoch_started", "ties"}) {
    if (const std::int64_t value = state.rule(name); value != 0 && value != 1) {
      wrong(fmt::format("{} is {}, it must be 0 or 1", name, value));
    }
  }
  check_counts(state, {"epoch", "sample_count", "epoch_sample_count"}, differences);
  if (differences.size() == before) {
    check_progress(state, differences);
  }
}

// That the counts follow from the open slices, and these from the generator of the epoch. Requires:
// each value is possible by itself.
void SliceOrder::check_progress(const State& state, std::vector<std::string>& differences) const {
  const auto wrong = [&differences](const std::string& what) {
    differences.push_back("SliceOrder: " + what);
  };
  const std::int64_t offset = state.integer("pending_offset");
  const std::int64_t samples = state.integer("epoch_sample_count");
  const auto& open = state.integers("open");
  std::vector<std::int64_t> open_slices;
  std::int64_t left = 0;  // samples in the open slices
  for (std::size_t i = 0; i < open.size(); i += 2) {
    if (open[i] != kNoSlice) {
      open_slices.push_back(open[i]);
      left += bounds_[static_cast<std::size_t>(open[i]) + 1] - open[i + 1];
    }
  }
  if (samples > state.integer("sample_count")) {
    wrong(
        fmt::format("{} samples in this epoch, {} in all", samples, state.integer("sample_count")));
  }
  if (state.integer("epoch_started") == 0) {
    if (offset != 0 || samples != 0 || !open_slices.empty()) {
      wrong(fmt::format("an epoch that was not begun has {} slices opened, {} open and {} samples",
                        offset, open_slices.size(), samples));
    }
    return;
  }
  // Drawn with replacement: which slices were opened is no longer known.
  if (options_.shuffle_over_epochs.mode != Mode::kReplacement && slice_count() != 0) {
    check_opened(state, open_slices, left, differences);
  }
}

// That the generator of the epoch opened `open_slices`, of which `left` samples are to come.
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
  // How often each was opened, and the samples in them.
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
    wrong(fmt::format("{} samples in this epoch, but the slices that were opened gave {}", samples,
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
  ties_ = static_cast<TieRule>(state.rule("ties"));
  update_weights();
}

Config SliceOrder::config() const {
  return {{"type", "SliceOrder"},
          {"slices", to_hex(xxh3_64(std::as_bytes(std::span(bounds_))))},
          {"samples", bounds_.back() - bounds_.front()},
          {"excluded", to_hex(xxh3_64(std::as_bytes(std::span(excluded_))))},
          {"shuffle_over_epochs", mode_name(options_.shuffle_over_epochs)},
          {"parallel_slices", options_.parallel_slices},
          {"seed", options_.seed}};
}

}  // namespace energon
