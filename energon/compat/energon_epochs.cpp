#include "energon/compat/energon_epochs.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "energon/sample/sample_ref.h"

namespace energon {
namespace {

constexpr std::size_t kMostReferences = std::size_t{1} << 28;  // as ShuffleBuffer

std::size_t inner_count(const Config& order) {
  const auto inner = order.find("inner");
  if (inner == order.end()) {
    return 0;
  }
  return inner->is_object() ? 1 : inner->size();
}

template <class Predicate>
bool any_inner(const Config& order, Predicate predicate) {
  for (std::size_t i = 0; i < inner_count(order); ++i) {
    if (predicate(inner_order(order, i))) {
      return true;
    }
  }
  return false;
}

}  // namespace

const Config& inner_order(const Config& config, std::size_t i) {
  const Config& inner = config.at("inner");
  if (inner.is_object()) {
    return inner;
  }
  const Config& entry = inner.at(i);
  return entry.contains("order") ? entry.at("order") : entry;  // of a blend, with its weight
}

bool is_endless(const Config& order) {
  if (order.at("type") == "Repeat") {
    return order.at("repetitions").is_null();
  }
  if (order.at("type") == "SliceOrder") {
    return order.at("shuffle_over_epochs") == "-1";
  }
  return any_inner(order, is_endless);
}

bool has_fractional_repetition(const Config& order) {
  if (order.at("type") == "Repeat" && !order.at("repetitions").is_null()) {
    const auto repetitions = order.at("repetitions").get<double>();
    if (repetitions != std::floor(repetitions)) {
      return true;
    }
  }
  return any_inner(order, has_fractional_repetition);
}

bool has_samples(const Config& order) {
  return order.at("type") == "SliceOrder" ? order.at("samples") != 0
                                          : any_inner(order, has_samples);
}

std::int64_t ended_epochs(const State& order, const Config& config) {
  if (order.type == "SliceOrder") {
    return order.integer("epoch");
  }
  std::optional<std::int64_t> least;
  for (std::size_t i = 0; i < order.children.size(); ++i) {
    const Config& inner = inner_order(config, i);
    if (has_samples(inner)) {
      const std::int64_t ended = ended_epochs(order.children[i], inner);
      least = std::min(ended, least.value_or(ended));
    }
  }
  if (order.type == "Repeat") {
    const auto passes = static_cast<std::int64_t>(config.at("repetitions").get<double>());
    return (least.value_or(0) - order.integer("repetition")) / passes;
  }
  return least.value_or(0);
}

bool is_before_epoch(const State& order, const Config& config) {
  if (order.type == "SliceOrder") {
    return order.integer("epoch_started") == 0 || !has_samples(config);
  }
  if (order.type == "ShuffleBuffer" &&
      !unpack_sample_refs(order.bytes("references"), kMostReferences).empty()) {
    return false;
  }
  for (std::size_t i = 0; i < order.children.size(); ++i) {
    if (!is_before_epoch(order.children[i], inner_order(config, i))) {
      return false;
    }
  }
  return true;
}

}  // namespace energon
