#include "wrappers/stages/flat_map.h"

#include <exception>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "wrappers/held/combine.h"

namespace energon {

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

  /// The next output with its key, or nothing after the last one. Throws what the function throws.
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

  /// The output after `count` others. Throws Error (kInvalidArgument) if there are not as many as
  /// there once were.
  void pass_over(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (!next_output()) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("the function gives {} outputs for '{}', before it gave {} or "
                                "more: it must be a function of its sample and its context",
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

// False: the inner epoch is over.
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

// Nothing: the sample has no more.
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
                fmt::format("restore key '{}' names an output that stage '{}' does not give",
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
    differences.push_back(fmt::format("FlatMap: {} outputs of no sample", outputs));
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
