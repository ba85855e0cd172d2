#include "wrappers/orders/concat.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {

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
