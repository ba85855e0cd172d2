#include "wrappers/orders/blend.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {

Blend::Blend(std::vector<WeightedOrder> inners, std::uint32_t seed)
    : inners_(std::move(inners)), rng_(seed), exhausted_(inners_.size(), 0) {
  if (inners_.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "nothing to blend");
  }
  for (std::size_t i = 0; i < inners_.size(); ++i) {
    const double weight = inners_[i].weight;
    if (!(weight > 0)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("weight {} of the blend is {}, it must be positive", i, weight));
    }
    // Drawn with floats, where very small numbers are zero and very large ones infinite.
    constexpr double kMost = std::numeric_limits<float>::max();
    if (weight > kMost || static_cast<float>(weight) == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("weight {} of the blend is {}, it must lie between {:g} and {:g}", i,
                              weight, std::numeric_limits<float>::denorm_min(), kMost));
    }
  }
  update_weights();
}

void Blend::update_weights() {
  std::vector<float> weights;
  weights.reserve(inners_.size());
  for (std::size_t i = 0; i < inners_.size(); ++i) {
    const bool is_over = exhausted_[i] != 0 || inners_[i].order->samples_per_pass() == 0;
    weights.push_back(is_over ? 0.0F : static_cast<float>(inners_[i].weight));
  }
  weights_ = CumulativeWeights(weights);
}

std::optional<SampleRef> Blend::next() {
  while (weights_.total() > 0) {
    const std::size_t chosen = rng_.choice(weights_);
    if (const auto ref = inners_[chosen].order->next()) {
      return ref;
    }
    exhausted_[chosen] = 1;
    update_weights();
  }
  return std::nullopt;
}

std::optional<SampleRef> Blend::replace(const SampleRef& left_out) {
  if (exhausted_.at(left_out.leaf) != 0) {
    return std::nullopt;
  }
  const auto ref = inners_[left_out.leaf].order->next();
  if (!ref) {
    exhausted_[left_out.leaf] = 1;
    update_weights();
  }
  return ref;
}

std::int64_t Blend::replaceable(std::uint32_t leaf) const {
  return inners_.at(leaf).order->samples_per_pass().value_or(0);
}

void Blend::next_epoch() {
  std::fill(exhausted_.begin(), exhausted_.end(), 0);
  update_weights();
  for (const WeightedOrder& inner : inners_) {
    inner.order->next_epoch();
  }
}

std::optional<std::int64_t> Blend::size() const {
  std::int64_t sum = 0;
  for (const WeightedOrder& inner : inners_) {
    const auto size = inner.order->size();
    if (!size) {
      return std::nullopt;
    }
    sum += *size;
  }
  return sum;
}

bool Blend::list_ranges(std::vector<LeafRange>& ranges) const {
  return std::all_of(inners_.begin(), inners_.end(), [&ranges](const WeightedOrder& inner) {
    return inner.order->list_ranges(ranges);
  });
}

State Blend::save_state() const {
  State state{"Blend", {{"rng", rng_.save()}, {"exhausted", exhausted_}}, {}};
  for (const WeightedOrder& inner : inners_) {
    state.children.push_back(inner.order->save_state());
  }
  return state;
}

void Blend::check_state(const State& state, std::vector<std::string>& differences) const {
  try {
    Mt19937(0).restore(state.bytes("rng"));
  } catch (const Error& error) {
    differences.push_back("Blend: " + error.message());
  }
  const auto& exhausted = state.integers("exhausted");
  if (exhausted.size() != inners_.size()) {
    differences.push_back(
        fmt::format("Blend: {} orders, expected {}", exhausted.size(), inners_.size()));
  }
  for (const std::int64_t ended : exhausted) {
    if (ended != 0 && ended != 1) {
      differences.push_back(fmt::format("Blend: exhausted is {}, it must be 0 or 1", ended));
    }
  }
  for (std::size_t i = 0; i < inners_.size(); ++i) {
    check(*inners_[i].order, state.children[i], differences);
  }
}

void Blend::apply_state(const State& state) {
  rng_.restore(state.bytes("rng"));
  exhausted_ = state.integers("exhausted");
  for (std::size_t i = 0; i < inners_.size(); ++i) {
    apply(*inners_[i].order, state.children[i]);
  }
  update_weights();
}

Config Blend::config() const {
  Config list = Config::array();
  for (const WeightedOrder& inner : inners_) {
    list.push_back({{"weight", inner.weight}, {"order", inner.order->config()}});
  }
  return {{"type", "Blend"}, {"inner", std::move(list)}};
}

}  // namespace energon
