#include "media/data/value_builder.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

// Positions in `mapping`, ordered by name and then by position.
std::vector<std::size_t> positions_by_name(const Mapping& mapping) {
  std::vector<std::size_t> result(mapping.size());
  std::iota(result.begin(), result.end(), std::size_t{0});
  std::ranges::stable_sort(result, [&](std::size_t left, std::size_t right) {
    return mapping[left].first < mapping[right].first;
  });
  return result;
}

// Allocates no memory; for few names.
bool has_equal_names(const Mapping& mapping) {
  for (std::size_t i = 1; i < mapping.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (mapping[i].first == mapping[j].first) {
        return true;
      }
    }
  }
  return false;
}

std::uint64_t own_bytes(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value.base())) {
    return sizeof(Value) + text->size();
  }
  if (const auto* bytes = std::get_if<SharedBytes>(&value.base())) {
    return sizeof(Value) + bytes->size();
  }
  return sizeof(Value);
}

}  // namespace

void keep_last_of_each_name(Mapping& mapping) {
  constexpr std::size_t kFewNames = 16;
  if (mapping.size() <= kFewNames && !has_equal_names(mapping)) {
    return;
  }
  const std::vector<std::size_t> order = positions_by_name(mapping);
  std::vector<bool> dropped(mapping.size());
  bool is_any_dropped = false;
  for (std::size_t first = 0, i = 1; i < order.size(); ++i) {
    if (mapping[order[i]].first != mapping[order[first]].first) {
      first = i;
      continue;
    }
    mapping[order[first]].second = std::move(mapping[order[i]].second);
    dropped[order[i]] = true;
    is_any_dropped = true;
  }
  if (!is_any_dropped) {
    return;
  }
  Mapping kept;
  for (std::size_t i = 0; i < mapping.size(); ++i) {
    if (!dropped[i]) {
      kept.push_back(std::move(mapping[i]));
    }
  }
  mapping = std::move(kept);
}

void ValueBuilder::add(Value value) {
  charge(own_bytes(value));
  put(std::move(value));
}

void ValueBuilder::add_unsigned(std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the number {} at {} is outside int64 [-2^63, 2^63); write it as a "
                            "string or a floating-point number",
                            value, place_()));
  }
  add(static_cast<std::int64_t>(value));
}

void ValueBuilder::begin(Value container) {
  if (open_.size() >= static_cast<std::size_t>(std::max(limits_.max_depth, 0))) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("at {}, lists and mappings are nested more than {} deep "
                            "(DecodeLimits::max_depth)",
                            place_(), limits_.max_depth));
  }
  charge(sizeof(Value));
  open_.push_back(std::move(container));
}

void ValueBuilder::name(std::string name) {
  charge(sizeof(std::string) + name.size());
  names_.push_back(std::move(name));
}

void ValueBuilder::end() {
  Value value = std::move(open_.back());
  open_.pop_back();
  if (auto* mapping = std::get_if<Mapping>(&value.base())) {
    keep_last_of_each_name(*mapping);
  }
  put(std::move(value));
}

void ValueBuilder::put(Value value) {
  if (open_.empty()) {
    root_ = std::move(value);
  } else if (auto* list = std::get_if<List>(&open_.back().base())) {
    list->push_back(std::move(value));
  } else {
    std::get<Mapping>(open_.back().base()).emplace_back(std::move(names_.back()), std::move(value));
    names_.pop_back();
  }
}

void ValueBuilder::charge(std::uint64_t bytes) {
  bytes_ += bytes;
  check_decoded_bytes("the value", bytes_, limits_);
}

}  // namespace energon
