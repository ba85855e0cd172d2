#include "wrappers/stages/batched_map.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/sample/sample.h"
#include "io/error.h"

namespace energon {
namespace {

std::vector<Sample> origins_of_each(std::span<const Sample> samples) {
  std::vector<Sample> origins;
  origins.reserve(samples.size());
  for (const Sample& sample : samples) {
    origins.push_back(origins_of(sample));
    origins.back().restore_key = sample.restore_key;
  }
  return origins;
}

RestoreKey key_of_call(std::int64_t call, const RestoreKey& inner) {
  return RestoreKey::around(Stage::kMap, {call}, inner);
}

}  // namespace

BatchedMap::BatchedMap(std::unique_ptr<Dataset> inner, BatchedMapOptions options)
    : inner_(std::move(inner)),
      options_(std::move(options)),
      resources_(options_.stage.resources()),
      guard_(options_.stage) {
  if (!options_.function) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("stage '{}' has no function", guard_.name()));
  }
  if (options_.samples_per_call < 1 || options_.samples_per_call > kMaxSamplesPerCall) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("samples_per_call is {}, expected 1 to {}", options_.samples_per_call,
                            kMaxSamplesPerCall));
  }
}

std::optional<Sample> BatchedMap::next() {
  std::vector<Sample> samples;
  next_many(1, samples);
  return samples.empty() ? std::nullopt : std::optional(std::move(samples.front()));
}

void BatchedMap::next_many(std::int64_t count, std::vector<Sample>& samples) {
  const std::size_t end = samples.size() + static_cast<std::size_t>(count);
  while (samples.size() < end && fill()) {
    if (alone_ > 0) {
      if (auto result = call_alone()) {
        samples.push_back(std::move(*result));
      }
      continue;
    }
    const std::size_t ready = std::min(end - samples.size(), results_.size());
    std::move(results_.begin(), results_.begin() + static_cast<std::ptrdiff_t>(ready),
              std::back_inserter(samples));
    drop_front(ready);
  }
}

// Samples of a restored state may have been excluded since then, because the function fails on
// them.
void BatchedMap::leave_out_excluded() {
  if (!options_.stage.is_excluded || Replay::is_running()) {
    return;
  }
  const std::size_t left_out = std::erase_if(waiting_, [&](const RestoreKey& key) {
    return std::ranges::any_of(samples_in(key), options_.stage.is_excluded);
  });
  if (left_out > 0) {
    guard_.count_skipped(left_out);
  }
}

// Makes a call if the results of the last one are used up. Returns false if the epoch is over.
bool BatchedMap::fill() {
  if (!results_.empty() || alone_ > 0) {
    return true;
  }
  leave_out_excluded();
  std::vector<Sample> samples = waiting_.empty() ? read_ahead() : read_again();
  if (samples.empty()) {
    return false;
  }
  call_together(std::move(samples));
  return true;
}

// Reads the samples of the next call. Empty if the inner epoch is over.
std::vector<Sample> BatchedMap::read_ahead() {
  std::vector<Sample> samples;
  std::uint64_t bytes = 0;
  bool is_end = false;
  while (!is_end && std::ssize(samples) < options_.samples_per_call &&
         bytes <= options_.max_held_bytes) {
    const std::size_t first = samples.size();
    const std::int64_t missing =
        std::min(options_.samples_per_call - std::ssize(samples), kReadTogether);
    inner_->next_many(missing, samples);
    is_end = std::ssize(samples) - static_cast<std::int64_t>(first) < missing;
    for (std::size_t i = first; i < samples.size(); ++i) {
      bytes += payload_bytes(samples[i]);
    }
  }
  for (const Sample& sample : samples) {
    waiting_.push_back(sample.restore_key);
  }
  return samples;
}

// The same for samples of a restored state, or of a call that ended with an Error.
std::vector<Sample> BatchedMap::read_again() {
  std::vector<Sample> samples;
  std::uint64_t bytes = 0;
  for (const RestoreKey& key : waiting_) {
    if (std::ssize(samples) == options_.samples_per_call || bytes > options_.max_held_bytes) {
      break;
    }
    samples.push_back(rebuild_sample(*inner_, key));
    bytes += payload_bytes(samples.back());
  }
  return samples;
}

// Calls the function with the first samples of waiting_.
void BatchedMap::call_together(std::vector<Sample> samples) {
  const std::vector<Sample> origins = origins_of_each(samples);
  const StageGuard::Work work = guard_.work_on(origins);
  std::vector<Sample> results;
  try {
    results = call(std::move(samples), origins, calls_);
  } catch (...) {
    const std::exception_ptr thrown = std::current_exception();
    if (guard_.may_be_of_sample(thrown)) {
      if (origins.size() > 1) {
        alone_ = origins.size();
        return;
      }
      drop_front(1);
    }
    guard_.handle(thrown, failed_samples(origins), false);
    return;
  }
  check_number(results.size(), origins.size());
  check_order(results, origins);
  guard_.succeed();
  std::move(results.begin(), results.end(), std::back_inserter(results_));
}

// Calls the function with the first sample of waiting_. The sample is read again, because the
// function may have changed the tensors of the one that it had. Nullopt if the policy skips it.
std::optional<Sample> BatchedMap::call_alone() {
  std::vector<Sample> samples;
  samples.push_back(rebuild_sample(*inner_, waiting_.front()));
  const std::vector<Sample> origins = origins_of_each(samples);
  const StageGuard::Work work = guard_.work_on(origins);
  const std::int64_t number = calls_;
  drop_front(1);
  auto results = guard_.run([&] { return call(std::move(samples), origins, number); },
                            [&origins] { return failed_samples(origins); });
  if (!results) {
    return std::nullopt;
  }
  check_number(results->size(), 1);
  return std::move(results->front());
}

// Results in another number than the samples are unfinished; see check_number(). `origins` have the
// keys of the samples.
std::vector<Sample> BatchedMap::call(std::vector<Sample> samples, std::span<const Sample> origins,
                                     std::int64_t first_call) const {
  const RestoreKey first_key = key_of_call(first_call, origins.front().restore_key);
  CallContext context(resources_, first_key, first_call);
  std::vector<Sample> results = options_.function(std::move(samples), context);
  if (results.size() != origins.size()) {
    return results;
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    set_origins(results[i], origins[i]);
    check_made(results[i]);
    results[i].restore_key =
        key_of_call(first_call + static_cast<std::int64_t>(i), origins[i].restore_key);
  }
  return results;
}

void BatchedMap::check_number(std::size_t results, std::size_t samples) const {
  if (results != samples) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the function of stage '{}' returned {} results for {} samples, "
                            "expected one for each, in the same order",
                            guard_.name(), results, samples));
  }
}

// Results with the keys of the samples must have them in the same order. Other keys are the
// function's own.
void BatchedMap::check_order(std::span<const Sample> results,
                             std::span<const Sample> origins) const {
  const auto [result, origin] =
      std::ranges::mismatch(results, origins, {}, &Sample::keys, &Sample::keys);
  if (result == results.end()) {
    return;
  }
  const auto sorted_keys = [](std::span<const Sample> samples) {
    std::vector<std::vector<std::string>> keys;
    for (const Sample& sample : samples) {
      keys.push_back(sample.keys.strings());
    }
    std::ranges::sort(keys);
    return keys;
  };
  if (sorted_keys(results) == sorted_keys(origins)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the function of stage '{}' returned '{}' for '{}', expected the "
                            "results in the order of the samples",
                            guard_.name(), fmt::join(result->keys.strings(), ", "),
                            fmt::join(origin->keys.strings(), ", ")));
  }
}

// Removes the first samples of waiting_, with their results.
void BatchedMap::drop_front(std::size_t count) {
  const auto erase_front = [](auto& entries, std::size_t n) {
    entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(n));
  };
  erase_front(waiting_, count);
  erase_front(results_, std::min(count, results_.size()));
  alone_ -= std::min(count, alone_);
  calls_ += static_cast<std::int64_t>(count);
}

void BatchedMap::next_epoch() {
  waiting_.clear();
  results_.clear();
  alone_ = 0;
  inner_->next_epoch();
}

std::int64_t BatchedMap::skip(std::int64_t count) {
  const std::int64_t held = std::min(count, std::ssize(waiting_));
  drop_front(static_cast<std::size_t>(held));
  if (held == count) {
    return count;
  }
  const std::int64_t more = inner_->skip(count - held);
  calls_ += more;
  return held + more;
}

Sample BatchedMap::restore_sample(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kMap, 1, 1);
  std::vector<Sample> samples;
  samples.push_back(inner_->restore_sample(parts.inner[0]));
  const std::vector<Sample> origins = origins_of_each(samples);
  const StageGuard::Work work = guard_.work_on(origins);
  std::vector<Sample> results = call(std::move(samples), origins, parts.integers[0]);
  check_number(results.size(), 1);
  return std::move(results.front());
}

void BatchedMap::check_key(const RestoreKey& key) const {
  for (const RestoreKey& inner : split_key(key, Stage::kMap, 1, 1).inner) {
    inner_->check_key(inner);
  }
}

State BatchedMap::save_state() const {
  const std::vector<RestoreKey> keys(waiting_.begin(), waiting_.end());
  return {
      "BatchedMap", {{"calls", calls_}, {"waiting", encode_keys(keys)}}, {inner_->save_state()}};
}

void BatchedMap::check_state(const State& state, std::vector<std::string>& differences) const {
  check_counts(state, {"calls"}, differences);
  try {
    const auto waiting = std::ssize(decode_keys(state.bytes("waiting"), *inner_));
    if (waiting > kMaxSamplesPerCall) {
      differences.push_back(fmt::format("BatchedMap: {} samples of a call, expected at most {}",
                                        waiting, kMaxSamplesPerCall));
    }
  } catch (const Error& error) {
    differences.push_back("BatchedMap: " + error.message());
  }
  check(*inner_, state.children[0], differences);
}

void BatchedMap::apply_state(const State& state) {
  const std::vector<RestoreKey> keys = decode_keys(state.bytes("waiting"));
  waiting_.assign(keys.begin(), keys.end());
  results_.clear();
  alone_ = 0;
  calls_ = state.integer("calls");
  apply(*inner_, state.children[0]);
}

Config BatchedMap::config() const {
  return {{"type", "BatchedMap"},
          {"name", guard_.name()},
          {"seed", resources_.seed},
          {"inner", inner_->config()}};
}

}  // namespace energon
