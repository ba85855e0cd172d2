#include "wrappers/stages/limit.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {

Limit::Limit(std::unique_ptr<Dataset> inner, std::int64_t length)
    : inner_(std::move(inner)), length_(length), start_(inner_->save_state()) {
  if (length < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("limit is {}, it must not be negative", length));
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
