#include "wrappers/stages/epochs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {

// --- Epochize ---

Epochize::Epochize(std::unique_ptr<Dataset> inner, std::int64_t length, AtEnd at_end)
    : inner_(std::move(inner)), length_(length), at_end_(at_end) {
  if (length < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("epoch length is {}, expected at least 0", length));
  }
}

std::optional<Sample> Epochize::next() {
  if (offset_ >= length_) {
    return std::nullopt;
  }
  auto sample = inner_->next();
  if (!sample && may_begin_again()) {
    inner_->next_epoch();
    sample = inner_->next();
  }
  if (sample) {
    ++offset_;
  } else if (at_end_ == AtEnd::kEndEpoch) {
    offset_ = length_;
  }
  return sample;
}

// A pass that ended with the last epoch is followed by the next one.
bool Epochize::may_begin_again() const { return at_end_ == AtEnd::kBeginAgain || offset_ == 0; }

std::optional<std::int64_t> Epochize::size() const {
  const auto inner = inner_->size();
  if (inner == 0) {
    return 0;
  }
  if (at_end_ == AtEnd::kBeginAgain) {
    return length_;
  }
  if (inner && *inner <= length_) {
    return inner;
  }
  // Otherwise the last epoch of a pass is shorter than the others.
  return inner && length_ > 0 && *inner % length_ == 0 ? std::optional(length_) : std::nullopt;
}

std::int64_t Epochize::skip(std::int64_t count) {
  const std::int64_t wanted = std::min(count, length_ - offset_);
  std::int64_t skipped = inner_->skip(wanted);
  while (skipped < wanted && (at_end_ == AtEnd::kBeginAgain || offset_ + skipped == 0)) {
    inner_->next_epoch();
    const std::int64_t more = inner_->skip(wanted - skipped);
    if (more == 0) {
      break;
    }
    skipped += more;
  }
  offset_ += skipped;
  if (skipped < wanted && at_end_ == AtEnd::kEndEpoch) {
    offset_ = length_;
  }
  return skipped;
}

State Epochize::save_state() const {
  return {"Epochize", {{"offset", offset_}}, {inner_->save_state()}};
}

void Epochize::check_state(const State& state, std::vector<std::string>& differences) const {
  if (const std::int64_t offset = state.integer("offset"); offset < 0 || offset > length_) {
    differences.push_back(fmt::format("Epochize: at {} of {}", offset, length_));
  }
  check(*inner_, state.children[0], differences);
}

void Epochize::apply_state(const State& state) {
  offset_ = state.integer("offset");
  apply(*inner_, state.children[0]);
}

Config Epochize::config() const {
  return {{"type", "Epochize"}, {"length", length_}, {"inner", inner_->config()}};
}

// --- Limit ---

Limit::Limit(std::unique_ptr<Dataset> inner, std::int64_t length)
    : inner_(std::move(inner)), length_(length), start_(inner_->save_state()) {
  if (length < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("limit is {}, expected at least 0", length));
  }
}

std::optional<Sample> Limit::next() {
  if (offset_ >= length_) {
    return std::nullopt;
  }
  auto sample = inner_->next();
  if (sample) {
    ++offset_;
  }
  return sample;
}

void Limit::next_epoch() {
  offset_ = 0;
  inner_->restore_state(start_);
}

std::optional<std::int64_t> Limit::size() const {
  const auto inner = inner_->size();
  return inner ? std::min(*inner, length_) : length_;
}

std::int64_t Limit::skip(std::int64_t count) {
  const std::int64_t skipped = inner_->skip(std::min(count, length_ - offset_));
  offset_ += skipped;
  return skipped;
}

State Limit::save_state() const { return {"Limit", {{"offset", offset_}}, {inner_->save_state()}}; }

void Limit::check_state(const State& state, std::vector<std::string>& differences) const {
  if (const std::int64_t offset = state.integer("offset"); offset < 0 || offset > length_) {
    differences.push_back(fmt::format("Limit: at {} of {}", offset, length_));
  }
  check(*inner_, state.children[0], differences);
}

void Limit::apply_state(const State& state) {
  offset_ = state.integer("offset");
  apply(*inner_, state.children[0]);
}

Config Limit::config() const {
  return {{"type", "Limit"}, {"length", length_}, {"inner", inner_->config()}};
}

// --- RepeatEpochs ---

RepeatEpochs::RepeatEpochs(std::unique_ptr<Dataset> inner, const Options& options)
    : inner_(std::move(inner)), options_(options) {
  if (!options.repetitions) {
    return;
  }
  const double repetitions = *options.repetitions;
  constexpr double kMostPasses = 1e15;  // counted in 64 bits
  if (!(repetitions >= 0) || repetitions > kMostPasses) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("repetitions is {}, expected a number from 0 to {:g}", repetitions,
                            kMostPasses));
  }
  whole_passes_ = static_cast<std::int64_t>(std::floor(repetitions));
  last_pass_length_ = static_cast<std::int64_t>(std::floor(
      static_cast<double>(options.pass_length) * (repetitions - std::floor(repetitions))));
}

// Whether the epoch is over by its counts: in the partial pass, or at once. Otherwise it ends with
// the inner stream.
bool RepeatEpochs::is_over() const {
  return options_.repetitions && repetition_ >= whole_passes_ && taken_ >= last_pass_length_;
}

// Requires: the inner stream has ended. Returns false if that was the last pass.
bool RepeatEpochs::begin_pass() {
  const std::int64_t passes = whole_passes_ + (last_pass_length_ > 0 ? 1 : 0);
  if (options_.repetitions && repetition_ + 1 >= passes) {
    return false;
  }
  ++repetition_;
  taken_ = 0;
  inner_->next_epoch();
  return true;
}

std::optional<Sample> RepeatEpochs::next() {
  for (bool is_new_pass = false; !is_over(); is_new_pass = true) {
    if (auto sample = inner_->next()) {
      ++taken_;
      return sample;
    }
    if (is_new_pass || !begin_pass()) {
      break;
    }
  }
  return std::nullopt;
}

void RepeatEpochs::next_epoch() {
  if (!options_.restarts) {
    repetition_ = whole_passes_;
    taken_ = last_pass_length_;
    return;
  }
  if (!is_over()) {
    inner_->next_epoch();
  }
  repetition_ = 0;
  taken_ = 0;
}

std::optional<std::int64_t> RepeatEpochs::size() const {
  const auto inner = inner_->size();
  const bool is_empty = options_.repetitions && whole_passes_ == 0 && last_pass_length_ == 0;
  if (inner == 0 || is_empty) {
    return 0;
  }
  const bool is_constant = options_.repetitions && options_.restarts && last_pass_length_ == 0;
  return inner && is_constant ? std::optional(*inner * whole_passes_) : std::nullopt;
}

std::int64_t RepeatEpochs::skip(std::int64_t count) {
  std::int64_t skipped = 0;
  bool is_new_pass = false;
  while (skipped < count && !is_over()) {
    const bool is_partial = options_.repetitions && repetition_ >= whole_passes_;
    const std::int64_t left = is_partial ? last_pass_length_ - taken_ : count;
    const std::int64_t wanted = std::min(count - skipped, left);
    const std::int64_t passed = inner_->skip(wanted);
    taken_ += passed;
    skipped += passed;
    if (passed < wanted) {
      if ((is_new_pass && passed == 0) || !begin_pass()) {
        break;
      }
      is_new_pass = true;
    }
  }
  return skipped;
}

State RepeatEpochs::save_state() const {
  return {"RepeatEpochs", {{"repetition", repetition_}, {"taken", taken_}}, {inner_->save_state()}};
}

void RepeatEpochs::check_state(const State& state, std::vector<std::string>& differences) const {
  check_counts(state, {"repetition", "taken"}, differences);
  if (const std::int64_t repetition = state.integer("repetition");
      options_.repetitions && repetition > whole_passes_) {
    differences.push_back(
        fmt::format("RepeatEpochs: in repetition {} of {}", repetition, *options_.repetitions));
  }
  check(*inner_, state.children[0], differences);
}

void RepeatEpochs::apply_state(const State& state) {
  repetition_ = state.integer("repetition");
  taken_ = state.integer("taken");
  apply(*inner_, state.children[0]);
}

Config RepeatEpochs::config() const {
  Config config = {{"type", "RepeatEpochs"}, {"repetitions", nullptr}};
  if (options_.repetitions) {
    config["repetitions"] = *options_.repetitions;
  }
  config["restarts"] = options_.restarts;
  config["inner"] = inner_->config();
  return config;
}

}  // namespace energon
