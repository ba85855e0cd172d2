#include "wrappers/repeat.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {

Repeat::Repeat(std::unique_ptr<Order> inner, std::optional<std::int64_t> repetitions)
    : inner_(std::move(inner)), repetitions_(repetitions) {
  if (repetitions && *repetitions < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("repetitions is {}, it must be at least 1", *repetitions));
  }
}

std::optional<SampleRef> Repeat::next() {
  while (true) {
    if (const auto ref = inner_->next()) {
      pass_is_empty_ = false;
      return ref;
    }
    if (pass_is_empty_ || (repetitions_ && repetition_ + 1 >= *repetitions_)) {
      return std::nullopt;
    }
    ++repetition_;
    pass_is_empty_ = true;
    inner_->next_epoch();
  }
}

void Repeat::next_epoch() {
  repetition_ = 0;
  pass_is_empty_ = true;
  inner_->next_epoch();
}

std::optional<std::int64_t> Repeat::size() const {
  const auto inner = inner_->size();
  if (inner == 0) {
    return 0;
  }
  return inner && repetitions_ ? std::optional(*inner * *repetitions_) : std::nullopt;
}

State Repeat::save_state() const {
  return {"Repeat",
          {{"repetition", repetition_}, {"pass_is_empty", std::int64_t{pass_is_empty_}}},
          {inner_->save_state()}};
}

void Repeat::check_state(const State& state, std::vector<std::string>& differences) const {
  const std::int64_t repetition = state.integer("repetition");
  if (repetition < 0 || (repetitions_ && repetition >= *repetitions_)) {
    differences.push_back(
        fmt::format("Repeat: in repetition {} of {}", repetition, repetitions_.value_or(-1)));
  }
  check(*inner_, state.children[0], differences);
}

void Repeat::apply_state(const State& state) {
  repetition_ = state.integer("repetition");
  pass_is_empty_ = state.integer("pass_is_empty") != 0;
  apply(*inner_, state.children[0]);
}

Config Repeat::config() const {
  Config config = {{"type", "Repeat"}, {"repetitions", nullptr}, {"inner", inner_->config()}};
  if (repetitions_) {
    config["repetitions"] = *repetitions_;
  }
  return config;
}

}  // namespace energon
