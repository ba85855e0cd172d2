#include "wrappers/batching/sort_pool.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

constexpr std::int64_t kMaxPoolSize = std::int64_t{1} << 24;

}  // namespace

// The keys of the samples pass through, so a separate seed distinguishes the draws of this stage
// from those of others.
SortPool::SortPool(std::unique_ptr<Dataset> inner, SortPoolOptions options)
    : inner_(std::move(inner)),
      options_(std::move(options)),
      resources_{.seed = options_.stage.seed ^
                         static_cast<std::uint32_t>(xxh3_64(as_bytes(options_.stage.name))),
                 .memory = options_.stage.memory},
      guard_(options_.stage),
      budget_{options_.max_held_bytes},
      pool_(*inner_, budget_) {
  if (!options_.cost) {
    throw Error(ErrorCode::kInvalidArgument, "a sort pool needs a cost function");
  }
  if (options_.pool_size < 1 || options_.pool_size > kMaxPoolSize) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("sort pool size is {}, expected 1 to {}",
                                                         options_.pool_size, kMaxPoolSize));
  }
}

std::optional<Sample> SortPool::next() {
  if (!fill()) {
    return std::nullopt;
  }
  return std::move(pool_.take_front(1).front());
}

void SortPool::next_many(std::int64_t count, std::vector<Sample>& samples) {
  const std::size_t end = samples.size() + static_cast<std::size_t>(count);
  while (samples.size() < end && fill()) {
    for (Sample& sample : pool_.take_front(std::min(end - samples.size(), pool_.size()))) {
      samples.push_back(std::move(sample));
    }
  }
}

std::int64_t SortPool::skip(std::int64_t count) {
  std::int64_t skipped = 0;
  while (skipped < count && fill()) {
    const auto some = std::min(count - skipped, static_cast<std::int64_t>(pool_.size()));
    pool_.drop_front(static_cast<std::size_t>(some));
    skipped += some;
  }
  return skipped;
}

// Reads the next pool if this one is empty. Returns false if the epoch is over.
bool SortPool::fill() {
  if (!pool_.empty()) {
    return true;
  }
  try {
    sort(read_pool());
  } catch (...) {
    pool_.clear();  // it is not sorted
    throw;
  }
  return !pool_.empty();
}

// Reads samples until the pool is full or the inner epoch is over. Returns their costs.
std::vector<double> SortPool::read_pool() {
  std::vector<double> costs;
  std::vector<Sample> samples;
  bool is_end = false;
  while (!is_end && std::ssize(costs) < options_.pool_size) {
    const std::int64_t missing = std::min(options_.pool_size - std::ssize(costs), kReadTogether);
    samples.clear();
    inner_->next_many(missing, samples);
    is_end = std::ssize(samples) < missing;
    for (Sample& sample : samples) {
      if (const std::optional<double> cost = cost_of(sample)) {
        costs.push_back(*cost);
        pool_.push_back(std::move(sample));
      }
    }
  }
  return costs;
}

// Nullopt if the function failed and the sample is skipped.
std::optional<double> SortPool::cost_of(const Sample& sample) {
  CallContext context(resources_, sample.restore_key, calls_++);
  const StageGuard::Work work = guard_.work_on({&sample, 1});
  return guard_.run(
      [&] {
        const double cost = options_.cost(sample, context);
        if (std::isnan(cost)) {
          throw Error(ErrorCode::kInvalidArgument,
                      "the cost of the sample is NaN, expected a number to sort by");
        }
        return cost;
      },
      [&] { return failed_samples(sample); });
}

void SortPool::sort(std::span<const double> costs) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto cost = [costs](std::size_t i) { return costs[i]; };
  if (options_.descending) {
    std::ranges::stable_sort(order, std::greater(), cost);
  } else {
    std::ranges::stable_sort(order, std::less(), cost);
  }
  pool_.reorder(order);
}

void SortPool::next_epoch() {
  pool_.clear();
  inner_->next_epoch();
}

State SortPool::save_state() const {
  return {"SortPool", {{"calls", calls_}, {"pool", pool_.save()}}, {inner_->save_state()}};
}

void SortPool::check_state(const State& state, std::vector<std::string>& differences) const {
  check_counts(state, {"calls"}, differences);
  try {
    const auto waiting = std::ssize(decode_keys(state.bytes("pool"), *inner_));
    if (waiting > options_.pool_size) {
      differences.push_back(fmt::format("SortPool: {} samples in the pool, expected at most {}",
                                        waiting, options_.pool_size));
    }
  } catch (const Error& error) {
    differences.push_back("SortPool: " + error.message());
  }
  check(*inner_, state.children[0], differences);
}

void SortPool::apply_state(const State& state) {
  calls_ = state.integer("calls");
  pool_.restore(state.bytes("pool"));
  apply(*inner_, state.children[0]);
}

Config SortPool::config() const {
  return {{"type", "SortPool"},
          {"name", guard_.name()},
          {"pool_size", options_.pool_size},
          {"descending", options_.descending},
          {"seed", options_.stage.seed},
          {"inner", inner_->config()}};
}

}  // namespace energon
