#include "wrappers/orders/repeat.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {

// --- Repeat ---

Repeat::Repeat(std::unique_ptr<Order> inner, std::optional<double> repetitions)
    : inner_(std::move(inner)), repetitions_(repetitions) {
  if (!repetitions) {
    return;
  }
  constexpr double kMostPasses = 1e15;  // counted in 64 bits
  if (!(*repetitions > 0) || *repetitions > kMostPasses) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("repetitions is {}, it must be {}", *repetitions,
                            *repetitions > kMostPasses ? fmt::format("at most {:g}", kMostPasses)
                                                       : "positive"));
  }
  whole_passes_ = static_cast<std::int64_t>(std::floor(*repetitions));
  const double fraction = *repetitions - std::floor(*repetitions);
  if (fraction > 0) {
    const auto samples = inner_->samples_per_pass();
    if (!inner_->size() || !samples) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("repetitions is {}, but an endless order has no fraction", *repetitions));
    }
    last_pass_length_ =
        static_cast<std::int64_t>(std::floor(static_cast<double>(*samples) * fraction));
  }
}

bool Repeat::is_last_pass_over() const {
  return repetitions_ && repetition_ >= whole_passes_ && taken_ >= last_pass_length_;
}

std::optional<SampleRef> Repeat::next() {
  while (!is_last_pass_over()) {
    if (const auto ref = inner_->next()) {
      ++taken_;
      return ref;
    }
    const bool is_last = repetitions_ && repetition_ + 1 >= whole_passes_ + (last_pass_length_ > 0);
    if (taken_ == 0 || is_last) {
      return std::nullopt;
    }
    ++repetition_;
    taken_ = 0;
    inner_->next_epoch();
  }
  return std::nullopt;
}

void Repeat::next_epoch() {
  repetition_ = 0;
  taken_ = 0;
  inner_->next_epoch();
}

std::optional<std::int64_t> Repeat::size() const {
  const auto inner = inner_->size();
  if (inner == 0) {
    return 0;
  }
  return inner && repetitions_ ? std::optional(*inner * whole_passes_ + last_pass_length_)
                               : std::nullopt;
}

State Repeat::save_state() const {
  return {"Repeat", {{"repetition", repetition_}, {"taken", taken_}}, {inner_->save_state()}};
}

void Repeat::check_state(const State& state, std::vector<std::string>& differences) const {
  const std::int64_t repetition = state.integer("repetition");
  if (repetition < 0 || repetition > (repetitions_ ? whole_passes_ : kMostInState)) {
    differences.push_back(
        fmt::format("Repeat: in repetition {} of {}", repetition,
                    repetitions_ ? fmt::format("{}", *repetitions_) : "any number"));
  }
  const bool is_last = repetitions_ && repetition == whole_passes_;
  const std::int64_t most = is_last ? last_pass_length_ : inner_->size().value_or(kMostInState);
  if (const std::int64_t taken = state.integer("taken"); taken < 0 || taken > most) {
    differences.push_back(
        fmt::format("Repeat: {} references of this repetition, it has at most {}", taken, most));
  }
  check(*inner_, state.children[0], differences);
}

void Repeat::apply_state(const State& state) {
  repetition_ = state.integer("repetition");
  taken_ = state.integer("taken");
  apply(*inner_, state.children[0]);
}

Config Repeat::config() const {
  Config config = {{"type", "Repeat"}, {"repetitions", nullptr}, {"inner", inner_->config()}};
  if (repetitions_) {
    config["repetitions"] = *repetitions_;
  }
  return config;
}

// --- Concat ---

Concat::Concat(std::vector<std::unique_ptr<Order>> inners) : inners_(std::move(inners)) {
  if (inners_.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "nothing to concatenate");
  }
}

std::optional<SampleRef> Concat::next() {
  for (; current_ < static_cast<std::int64_t>(inners_.size()); ++current_) {
    if (const auto ref = inners_[static_cast<std::size_t>(current_)]->next()) {
      return ref;
    }
  }
  return std::nullopt;
}

void Concat::next_epoch() {
  current_ = 0;
  for (const auto& inner : inners_) {
    inner->next_epoch();
  }
}

std::optional<std::int64_t> Concat::size() const {
  std::int64_t sum = 0;
  for (const auto& inner : inners_) {
    const auto size = inner->size();
    if (!size) {
      return std::nullopt;
    }
    sum += *size;
  }
  return sum;
}

bool Concat::list_ranges(std::vector<LeafRange>& ranges) const {
  return std::all_of(inners_.begin(), inners_.end(),
                     [&ranges](const auto& inner) { return inner->list_ranges(ranges); });
}

State Concat::save_state() const {
  State state{"Concat", {{"current", current_}}, {}};
  for (const auto& inner : inners_) {
    state.children.push_back(inner->save_state());
  }
  return state;
}

void Concat::check_state(const State& state, std::vector<std::string>& differences) const {
  const std::int64_t current = state.integer("current");
  if (current < 0 || current > static_cast<std::int64_t>(inners_.size())) {
    differences.push_back(fmt::format("Concat: in part {} of {}", current, inners_.size()));
  }
  for (std::size_t i = 0; i < inners_.size(); ++i) {
    check(*inners_[i], state.children[i], differences);
  }
}

void Concat::apply_state(const State& state) {
  current_ = state.integer("current");
  for (std::size_t i = 0; i < inners_.size(); ++i) {
    apply(*inners_[i], state.children[i]);
  }
}

Config Concat::config() const {
  Config list = Config::array();
  for (const auto& inner : inners_) {
    list.push_back(inner->config());
  }
  return {{"type", "Concat"}, {"inner", std::move(list)}};
}

}  // namespace energon
