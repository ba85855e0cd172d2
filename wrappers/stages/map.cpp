#include "wrappers/stages/map.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "io/hash.h"
#include "wrappers/buffers/combine.h"

namespace energon {

// --- Map ---

Sample call_map(const MapFunction& function, Sample sample, const Sample& origins,
                const CallResources& resources, std::int64_t call) {
  const RestoreKey key = RestoreKey::around(Stage::kMap, {call}, sample.restore_key);
  CallContext context(resources, key, call);
  Sample result = function(std::move(sample), context);
  set_origins(result, origins);
  check_made(result);
  result.restore_key = key;
  return result;
}

Map::Map(std::unique_ptr<Dataset> inner, MapFunction function, const StageOptions& options,
         ReplaceFunction replace)
    : inner_(std::move(inner)),
      function_(std::move(function)),
      resources_(options.resources()),
      replace_(std::move(replace)),
      guard_(options) {
  if (!function_) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("stage '{}' has no function", options.name));
  }
}

std::optional<Sample> Map::guarded(Sample sample) {
  const std::int64_t call = calls_++;
  const Sample origins = origins_of(sample);
  const StageGuard::Work work = guard_.work_on({&origins, 1});
  return guard_.run(
      [&] { return call_map(function_, std::move(sample), origins, resources_, call); },
      [&origins] { return failed_samples(origins); });
}

std::optional<Sample> Map::replacement_of(RestoreKey left_out) {
  for (std::int64_t in_a_row = 1;; ++in_a_row) {
    std::optional<Sample> sample = replace_(left_out, in_a_row);
    if (!sample) {
      return std::nullopt;
    }
    left_out = sample->restore_key;
    if (auto result = guarded(std::move(*sample))) {
      return result;
    }
  }
}

std::optional<Sample> Map::next() {
  std::vector<Sample> samples;
  next_many(1, samples);
  return samples.empty() ? std::nullopt : std::optional(std::move(samples.front()));
}

void Map::next_many(std::int64_t count, std::vector<Sample>& samples) {
  const std::size_t end = samples.size() + static_cast<std::size_t>(count);
  while (samples.size() < end) {
    const std::size_t first = samples.size();
    inner_->next_many(static_cast<std::int64_t>(end - first), samples);
    const bool is_end = samples.size() < end;
    if (replace_) {
      map_and_replace(first, samples);
    } else {
      map_in_place(first, samples);
    }
    if (is_end) {
      return;
    }
  }
}

void Map::map_in_place(std::size_t first, std::vector<Sample>& samples) {
  std::size_t kept = first;
  for (std::size_t i = first; i < samples.size(); ++i) {
    if (auto result = guarded(std::move(samples[i]))) {
      samples[kept++] = std::move(*result);
    }
  }
  samples.resize(kept);
}

// As if the function ran before the leaves were mixed: the places of a leaf get its results in
// order, replacements last.
void Map::map_and_replace(std::size_t first, std::vector<Sample>& samples) {
  struct Leaf {
    std::vector<std::size_t> places = {};
    std::vector<Sample> results = {};
    std::vector<RestoreKey> left_out = {};
  };
  std::map<std::int64_t, Leaf> leaves;
  for (std::size_t i = first; i < samples.size(); ++i) {
    RestoreKey key = samples[i].restore_key;
    Leaf& leaf = leaves[leaf_of(key)];
    leaf.places.push_back(i);
    if (auto result = guarded(std::move(samples[i]))) {
      leaf.results.push_back(std::move(*result));
    } else {
      leaf.left_out.push_back(std::move(key));
    }
  }
  std::vector<std::size_t> empty_places;
  for (auto& [number, leaf] : leaves) {
    for (RestoreKey& key : leaf.left_out) {
      auto result = replacement_of(std::move(key));
      if (!result) {
        break;  // no replacements for the others, either
      }
      leaf.results.push_back(std::move(*result));
    }
    for (std::size_t i = 0; i < leaf.places.size(); ++i) {
      if (i < leaf.results.size()) {
        samples[leaf.places[i]] = std::move(leaf.results[i]);
      } else {
        empty_places.push_back(leaf.places[i]);
      }
    }
  }
  std::ranges::sort(empty_places, std::greater());
  for (const std::size_t place : empty_places) {
    samples.erase(samples.begin() + static_cast<std::ptrdiff_t>(place));
  }
}

std::int64_t Map::skip_batches(std::int64_t count, std::int64_t batch_size) {
  const std::int64_t skipped = inner_->skip_batches(count, batch_size);
  calls_ += skipped;
  return skipped;
}

std::int64_t Map::skip(std::int64_t count) {
  const std::int64_t skipped = inner_->skip(count);
  calls_ += skipped;
  return skipped;
}

Sample Map::restore_sample(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kMap, 1, 1);
  Sample sample = inner_->restore_sample(parts.inner[0]);
  const Sample origins = origins_of(sample);
  const StageGuard::Work work = guard_.work_on({&origins, 1});
  return call_map(function_, std::move(sample), origins, resources_, parts.integers[0]);
}

void Map::check_key(const RestoreKey& key) const {
  for (const RestoreKey& inner : split_key(key, Stage::kMap, 1, 1).inner) {
    inner_->check_key(inner);
  }
}

State Map::save_state() const { return {"Map", {{"calls", calls_}}, {inner_->save_state()}}; }

void Map::check_state(const State& state, std::vector<std::string>& differences) const {
  check_counts(state, {"calls"}, differences);
  check(*inner_, state.children[0], differences);
}

void Map::apply_state(const State& state) {
  calls_ = state.integer("calls");
  apply(*inner_, state.children[0]);
}

Config Map::config() const {
  return {{"type", "Map"},
          {"name", guard_.name()},
          {"seed", resources_.seed},
          {"inner", inner_->config()}};
}

// --- Filter ---

// The key does not distinguish the draws of a filter from those of the stage before it, so the name
// must.
Filter::Filter(std::unique_ptr<Dataset> inner, FilterFunction function, const StageOptions& options)
    : inner_(std::move(inner)),
      function_(std::move(function)),
      seed_(options.seed),
      resources_{.seed = options.seed ^ static_cast<std::uint32_t>(xxh3_64(as_bytes(options.name))),
                 .memory = options.memory},
      guard_(options) {
  if (!function_) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("stage '{}' has no function", options.name));
  }
}

bool Filter::keeps(const Sample& sample) {
  CallContext context(resources_, sample.restore_key, calls_++);
  const StageGuard::Work work = guard_.work_on({&sample, 1});
  bool keeps = false;
  try {
    keeps = function_(sample, context);
  } catch (...) {
    guard_.handle(std::current_exception(), failed_samples(sample), false);
    return false;
  }
  if (keeps) {
    guard_.succeed();
  } else {
    guard_.succeed_with_nothing();
  }
  return keeps;
}

std::optional<Sample> Filter::next() {
  while (std::optional<Sample> sample = inner_->next()) {
    if (keeps(*sample)) {
      return sample;
    }
  }
  return std::nullopt;
}

void Filter::next_many(std::int64_t count, std::vector<Sample>& samples) {
  const std::size_t end = samples.size() + static_cast<std::size_t>(count);
  while (samples.size() < end) {
    const std::size_t first = samples.size();
    inner_->next_many(static_cast<std::int64_t>(end - first), samples);
    const bool is_end = samples.size() < end;
    std::size_t kept = first;
    for (std::size_t i = first; i < samples.size(); ++i) {
      if (keeps(samples[i])) {
        if (kept != i) {
          samples[kept] = std::move(samples[i]);
        }
        ++kept;
      }
    }
    samples.resize(kept);
    if (is_end) {
      return;
    }
  }
}

State Filter::save_state() const { return {"Filter", {{"calls", calls_}}, {inner_->save_state()}}; }

void Filter::check_state(const State& state, std::vector<std::string>& differences) const {
  check_counts(state, {"calls"}, differences);
  check(*inner_, state.children[0], differences);
}

void Filter::apply_state(const State& state) {
  calls_ = state.integer("calls");
  apply(*inner_, state.children[0]);
}

Config Filter::config() const {
  return {
      {"type", "Filter"}, {"name", guard_.name()}, {"seed", seed_}, {"inner", inner_->config()}};
}

// --- FlatMap ---

/// One call of the function and its generator.
class FlatMap::Call {
 public:
  Call(const FlatMapFunction& function, StageGuard& guard, Sample sample,
       const CallResources& resources, std::int64_t number)
      : function_(function),
        guard_(guard),
        number_(number),
        inner_key_(sample.restore_key),
        key_(RestoreKey::around(Stage::kFlatMap, {number}, inner_key_)),
        origins_(origins_of(sample)),
        context_(resources, key_, number),
        sample_(std::move(sample)) {}

  /// The next output with its key, or nullopt after the last one. Throws whatever the function
  /// throws.
  std::optional<Sample> next_output() {
    const StageGuard::Work work = guard_.work_on({&origins_, 1});
    if (sample_) {
      Sample sample = std::move(*sample_);
      sample_.reset();
      generator_ = function_(std::move(sample), context_);
    }
    std::optional<Sample> output = generator_ ? generator_() : std::nullopt;
    if (output) {
      output->restore_key = RestoreKey::around(Stage::kFlatMap, {number_, outputs_++}, inner_key_);
      set_origins(*output, origins_);
      check_made(*output);
    }
    return output;
  }

  /// The output after `count` others. Throws Error (kInvalidArgument) if there are fewer outputs
  /// than before.
  void pass_over(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (!next_output()) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("the function returns {} outputs for '{}', but returned at least "
                                "{} before: it must depend only on its sample and its context",
                                i, inner_key_.text(), count));
      }
    }
  }

  const Sample& origins() const { return origins_; }

 private:
  const FlatMapFunction& function_;
  StageGuard& guard_;
  const std::int64_t number_;
  const RestoreKey inner_key_;
  const RestoreKey key_;
  const Sample origins_;
  CallContext context_;
  std::optional<Sample> sample_;  // until the function takes it
  SampleGenerator generator_;     // may refer to the context
  std::int64_t outputs_ = 0;
};

FlatMap::FlatMap(std::unique_ptr<Dataset> inner, FlatMapFunction function,
                 const StageOptions& options)
    : inner_(std::move(inner)),
      function_(std::move(function)),
      resources_(options.resources()),
      guard_(options) {
  if (!function_) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("stage '{}' has no function", options.name));
  }
}

FlatMap::~FlatMap() = default;

std::optional<Sample> FlatMap::next() {
  while (call_ || begin_call()) {
    if (auto output = next_output()) {
      return output;
    }
  }
  return std::nullopt;
}

// Returns false if the inner epoch is over.
bool FlatMap::begin_call() {
  if (sample_.empty()) {
    std::optional<Sample> sample = inner_->next();
    if (!sample) {
      return false;
    }
    sample_ = sample->restore_key;
    call_ = std::make_unique<Call>(function_, guard_, std::move(*sample), resources_, calls_);
    return true;
  }
  auto call = std::make_unique<Call>(function_, guard_, rebuild_sample(*inner_, sample_),
                                     resources_, calls_);
  try {
    call->pass_over(outputs_);
  } catch (...) {
    fail_to_rebuild(sample_);
  }
  call_ = std::move(call);
  return true;
}

// Nullopt if the sample has no more outputs.
std::optional<Sample> FlatMap::next_output() {
  std::optional<Sample> output;
  try {
    output = call_->next_output();
  } catch (...) {
    std::vector<FailedSample> failed = failed_samples(call_->origins());
    end_call();
    guard_.handle(std::current_exception(), std::move(failed), false);
    return std::nullopt;
  }
  if (output) {
    guard_.succeed();
    ++outputs_;
    return output;
  }
  const bool is_empty = outputs_ == 0;
  end_call();
  if (is_empty) {
    guard_.succeed_with_nothing();
  } else {
    guard_.succeed();
  }
  return std::nullopt;
}

void FlatMap::end_call() {
  call_.reset();
  ++calls_;
  sample_ = RestoreKey();
  outputs_ = 0;
}

void FlatMap::next_epoch() {
  if (!sample_.empty()) {
    end_call();
  }
  inner_->next_epoch();
}

Sample FlatMap::restore_sample(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kFlatMap, 2, 1);
  Call call(function_, guard_, inner_->restore_sample(parts.inner[0]), resources_,
            parts.integers[0]);
  call.pass_over(parts.integers[1]);
  std::optional<Sample> output = call.next_output();
  if (!output) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("restore key '{}' refers to an output that stage '{}' does not produce",
                            key.text(), guard_.name()));
  }
  return std::move(*output);
}

void FlatMap::check_key(const RestoreKey& key) const {
  for (const RestoreKey& inner : split_key(key, Stage::kFlatMap, 2, 1).inner) {
    inner_->check_key(inner);
  }
}

State FlatMap::save_state() const {
  return {"FlatMap",
          {{"calls", calls_}, {"sample", sample_.bytes()}, {"outputs", outputs_}},
          {inner_->save_state()}};
}

void FlatMap::check_state(const State& state, std::vector<std::string>& differences) const {
  check_counts(state, {"calls", "outputs"}, differences);
  const std::string& sample = state.bytes("sample");
  const std::int64_t outputs = state.integer("outputs");
  if (sample.empty() && outputs > 0) {
    differences.push_back(fmt::format("FlatMap: {} outputs without a sample", outputs));
  }
  if (!sample.empty()) {
    try {
      inner_->check_key(RestoreKey::from_bytes(sample));
    } catch (const Error& error) {
      differences.push_back("FlatMap: " + error.message());
    }
  }
  check(*inner_, state.children[0], differences);
}

void FlatMap::apply_state(const State& state) {
  call_.reset();
  calls_ = state.integer("calls");
  const std::string& sample = state.bytes("sample");
  sample_ = sample.empty() ? RestoreKey() : RestoreKey::from_bytes(sample);
  outputs_ = state.integer("outputs");
  apply(*inner_, state.children[0]);
}

Config FlatMap::config() const {
  return {{"type", "FlatMap"},
          {"name", guard_.name()},
          {"seed", resources_.seed},
          {"inner", inner_->config()}};
}

}  // namespace energon
