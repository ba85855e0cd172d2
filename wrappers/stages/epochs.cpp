#include "wrappers/stages/epochs.h"

#include <algorithm>
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

}  // namespace energon
