#include "wrappers/orders/blend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {

// --- Blend ---

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
    // Drawn with floats, in which very small weights are zero and very large ones infinite.
    constexpr double kMost = std::numeric_limits<float>::max();
    if (weight > kMost || static_cast<float>(weight) == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("weight {} of the blend is {}, expected {:g} to {:g}", i, weight,
                              std::numeric_limits<float>::denorm_min(), kMost));
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

// --- ShareBlend ---

ShareBlend::ShareBlend(std::vector<SharedOrder> inners)
    : inners_(std::move(inners)), given_(inners_.size(), 0), exhausted_(inners_.size(), 0) {
  if (inners_.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "nothing to blend");
  }
  for (std::size_t i = 0; i < inners_.size(); ++i) {
    const double weight = inners_[i].weight;
    if (!(weight > 0) || !std::isfinite(weight)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("weight {} of the blend is {}, expected a positive finite number", i,
                              weight));
    }
    weights_ += weight;
  }
}

std::optional<std::size_t> ShareBlend::choose() const {
  const auto all = static_cast<double>(
      std::max<std::int64_t>(std::accumulate(given_.begin(), given_.end(), std::int64_t{0}), 1));
  std::optional<std::size_t> chosen;
  double largest = 0;
  for (std::size_t i = 0; i < inners_.size(); ++i) {
    if (exhausted_[i] != 0 || inners_[i].order->samples_per_pass() == 0) {
      continue;
    }
    const double missing = inners_[i].weight / weights_ - static_cast<double>(given_[i]) / all;
    if (!chosen || missing >= largest) {
      chosen = i;
      largest = missing;
    }
  }
  return chosen;
}

std::optional<SampleRef> ShareBlend::next() {
  while (const std::optional<std::size_t> chosen = choose()) {
    if (const auto ref = inners_[*chosen].order->next()) {
      given_[*chosen] += length_of(*chosen, *ref);
      return ref;
    }
    exhausted_[*chosen] = 1;
  }
  return std::nullopt;
}

std::int64_t ShareBlend::length_of(std::size_t inner, const SampleRef& ref) const {
  const LengthOfSample& length_of_sample = inners_[inner].length;
  const std::int64_t length = length_of_sample ? length_of_sample(ref.index) : 1;
  if (length < 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("sample {} of the blend's order {} has length {}", ref.index, inner, length));
  }
  return length;
}

// A skipped reference does not count: its share goes to the replacement.
std::optional<SampleRef> ShareBlend::replace(const SampleRef& left_out) {
  const std::size_t leaf = left_out.leaf;
  given_.at(leaf) = std::max<std::int64_t>(given_[leaf] - length_of(leaf, left_out), 0);
  if (exhausted_[leaf] != 0) {
    return std::nullopt;
  }
  const auto ref = inners_[leaf].order->next();
  if (ref) {
    given_[leaf] += length_of(leaf, *ref);
  } else {
    exhausted_[leaf] = 1;
  }
  return ref;
}

std::int64_t ShareBlend::replaceable(std::uint32_t leaf) const {
  return inners_.at(leaf).order->samples_per_pass().value_or(0);
}

void ShareBlend::next_epoch() {
  std::fill(exhausted_.begin(), exhausted_.end(), 0);
  for (const SharedOrder& inner : inners_) {
    inner.order->next_epoch();
  }
}

std::optional<std::int64_t> ShareBlend::size() const {
  std::int64_t sum = 0;
  for (const SharedOrder& inner : inners_) {
    const auto size = inner.order->size();
    if (!size) {
      return std::nullopt;
    }
    sum += *size;
  }
  return sum;
}

bool ShareBlend::list_ranges(std::vector<LeafRange>& ranges) const {
  return std::all_of(inners_.begin(), inners_.end(), [&ranges](const SharedOrder& inner) {
    return inner.order->list_ranges(ranges);
  });
}

State ShareBlend::save_state() const {
  State state{"ShareBlend", {{"given", given_}, {"exhausted", exhausted_}}, {}};
  for (const SharedOrder& inner : inners_) {
    state.children.push_back(inner.order->save_state());
  }
  return state;
}

void ShareBlend::check_state(const State& state, std::vector<std::string>& differences) const {
  // Bounded so that the sum of the lengths does not overflow.
  const std::int64_t most_given = kMostInState / static_cast<std::int64_t>(inners_.size());
  for (const auto& [name, most] : {std::pair("given", most_given), std::pair("exhausted", 1L)}) {
    const auto& numbers = state.integers(name);
    if (numbers.size() != inners_.size() ||
        std::any_of(numbers.begin(), numbers.end(),
                    [most = most](std::int64_t n) { return n < 0 || n > most; })) {
      differences.push_back(fmt::format("ShareBlend: {} of {} orders, expected {}, all in [0, {}]",
                                        name, numbers.size(), inners_.size(), most));
    }
  }
  for (std::size_t i = 0; i < inners_.size(); ++i) {
    check(*inners_[i].order, state.children[i], differences);
  }
}

void ShareBlend::apply_state(const State& state) {
  given_ = state.integers("given");
  exhausted_ = state.integers("exhausted");
  for (std::size_t i = 0; i < inners_.size(); ++i) {
    apply(*inners_[i].order, state.children[i]);
  }
}

Config ShareBlend::config() const {
  Config list = Config::array();
  for (const SharedOrder& inner : inners_) {
    list.push_back({{"weight", inner.weight}, {"order", inner.order->config()}});
  }
  return {{"type", "ShareBlend"}, {"inner", std::move(list)}};
}

}  // namespace energon
