#include "wrappers/stages/iter_map.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "energon/stage/stage_guard.h"
#include "io/error.h"
#include "wrappers/buffers/combine.h"

namespace energon {

// --- IterCall ---

/// One call of the function of IterMap and its generator.
class IterCall {
 public:
  /// Returns the sample that the call pulls at `position`, counted from 0; nullopt at the end.
  using Source = std::function<std::optional<Sample>(std::size_t position)>;

  /// `options` and `guard` must outlive the call. `number` is the number of the call.
  IterCall(const IterMapOptions& options, StageGuard& guard, std::int64_t number, Source source);
  IterCall(const IterCall&) = delete;
  IterCall& operator=(const IterCall&) = delete;

  /// The next output with its key, or nullopt after the last one. Throws whatever the function
  /// throws, and any exception of the source, even if the function caught it.
  std::optional<Sample> next_output();

  /// Remakes the first `count` outputs and drops them. Throws Error (kInvalidArgument) if the
  /// function now makes fewer.
  void pass_over(std::int64_t count);

  bool has_source_failed() const { return source_error_ != nullptr; }
  /// Keys and sources of the samples that were pulled.
  std::span<const Sample> origins() const { return origins_; }

 private:
  std::optional<Sample> run_generator();
  std::optional<Sample> pull();
  std::span<const Sample> last_origins() const;

  const IterMapFunction& function_;
  StageGuard& guard_;
  const Source source_;
  const std::int64_t number_;
  RestoreKey key_;  // IterMap(call)[first sample pulled]
  const CallResources resources_;
  CallContext context_;
  std::vector<RestoreKey> keys_;
  std::vector<Sample> origins_;
  std::exception_ptr source_error_;
  bool has_begun_ = false;
  SampleGenerator generator_;  // may refer to the context and to this
  std::int64_t outputs_ = 0;
};

IterCall::IterCall(const IterMapOptions& options, StageGuard& guard, std::int64_t number,
                   Source source)
    : function_(options.function),
      guard_(guard),
      source_(std::move(source)),
      number_(number),
      key_(RestoreKey::list(Stage::kIterMap, {number}, {})),
      resources_(options.stage.resources()),
      context_(resources_, key_, number) {}

std::optional<Sample> IterCall::next_output() {
  const StageGuard::Work work = guard_.work_on(last_origins());
  std::optional<Sample> output = run_generator();
  if (output) {
    output->restore_key = RestoreKey::list(Stage::kIterMap, {number_, outputs_++}, keys_);
    if (output->keys.empty()) {
      for (const Sample& origins : origins_) {
        Sample copy = origins;
        move_origins({&copy, 1}, *output);
      }
    }
    check_made(*output);
  }
  return output;
}

std::optional<Sample> IterCall::run_generator() {
  std::optional<Sample> output;
  try {
    if (!std::exchange(has_begun_, true)) {
      generator_ = function_([this] { return pull(); }, context_);
    }
    output = generator_ ? generator_() : std::nullopt;
  } catch (...) {
    if (!source_error_) {
      throw;
    }
  }
  if (source_error_) {
    std::rethrow_exception(source_error_);
  }
  return output;
}

void IterCall::pass_over(std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!next_output()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("call {} of the function returns {} outputs, but returned at least {} "
                      "before: it must depend only on the samples it pulls and its context",
                      number_, i, count));
    }
  }
}

std::optional<Sample> IterCall::pull() {
  if (source_error_) {
    std::rethrow_exception(source_error_);
  }
  try {
    std::optional<Sample> sample = source_(keys_.size());
    if (sample) {
      keys_.push_back(sample->restore_key);
      origins_.push_back(origins_of(*sample));
      if (keys_.size() == 1) {
        key_ = RestoreKey::list(Stage::kIterMap, {number_}, keys_);
      }
    }
    guard_.note_work(last_origins());  // overwrites the notes of earlier stages
    return sample;
  } catch (...) {
    source_error_ = std::current_exception();
    throw;
  }
}

// The samples that the function most likely works on.
std::span<const Sample> IterCall::last_origins() const {
  constexpr std::size_t kMost = 64;
  return std::span(origins_).last(std::min(origins_.size(), kMost));
}

// --- IterMap ---

IterMap::IterMap(std::unique_ptr<Dataset> inner, IterMapOptions options)
    : inner_(std::move(inner)), options_(std::move(options)), guard_(options_.stage) {
  if (!options_.function) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("stage '{}' has no function", options_.stage.name));
  }
  if (options_.max_samples_per_call < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("max_samples_per_call is {}, expected at least 1",
                            options_.max_samples_per_call));
  }
}

IterMap::~IterMap() = default;

std::optional<Sample> IterMap::next() {
  while (true) {
    if (!call_) {
      if (is_inner_end_ && !has_begun_call()) {
        return std::nullopt;
      }
      begin_call();
    }
    if (auto output = next_output()) {
      return output;
    }
  }
}

// Sample `position` of the running call. After a restore, the first ones are rebuilt: those that
// the call had pulled before.
std::optional<Sample> IterMap::sample_at(std::size_t position) {
  if (position < pulled_.size()) {
    return rebuild_sample(*inner_, pulled_[position]);
  }
  if (is_inner_end_) {
    return std::nullopt;
  }
  if (is_repeating_) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the function pulls more than the {} samples that it pulled before: it "
                            "must depend only on the samples it pulls and its context",
                            position));
  }
  if (static_cast<std::int64_t>(position) >= options_.max_samples_per_call) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("a call of stage '{}' pulled {} samples and requests more: end the "
                            "function's generator earlier, because it is called again, or raise "
                            "max_samples_per_call",
                            guard_.name(), position));
  }
  std::optional<Sample> sample = inner_->next();
  if (sample) {
    pulled_.push_back(sample->restore_key);
  } else {
    is_inner_end_ = true;
  }
  return sample;
}

void IterMap::begin_call() {
  auto call = std::make_unique<IterCall>(
      options_, guard_, calls_, [this](std::size_t position) { return sample_at(position); });
  is_repeating_ = true;
  try {
    call->pass_over(outputs_);
  } catch (...) {
    is_repeating_ = false;
    fail_to_rebuild(RestoreKey::leaf(Stage::kIterMap, {calls_}));
  }
  is_repeating_ = false;
  call_ = std::move(call);
}

// Nullopt if the call failed or has no more outputs.
std::optional<Sample> IterMap::next_output() {
  std::optional<Sample> output;
  try {
    output = call_->next_output();
  } catch (...) {
    end_failed_call();
    return std::nullopt;
  }
  if (!output) {
    end_finished_call();
    return std::nullopt;
  }
  guard_.succeed();
  ++outputs_;
  return output;
}

// Skips the samples that the call pulled, if the policy allows it. Requires: called in an exception
// handler.
void IterMap::end_failed_call() {
  if (call_->has_source_failed()) {
    // Not the function's fault. The pulled samples are not lost: the call is repeated with them.
    call_.reset();
    throw;
  }
  const bool would_repeat = !has_begun_call() && !is_inner_end_;
  std::vector<FailedSample> failed = failed_samples(call_->origins());
  end_call();
  guard_.handle(std::current_exception(), std::move(failed), false);
  if (would_repeat) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("stage '{}' failed before it pulled a sample, so there is no sample to skip",
                    guard_.name()));
  }
}

void IterMap::end_finished_call() {
  if (!has_begun_call() && !is_inner_end_) {
    call_.reset();
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a call of stage '{}' pulled and returned no sample although there are "
                            "more: it would be called forever",
                            guard_.name()));
  }
  const bool gave_nothing = outputs_ == 0 && !pulled_.empty();
  end_call();
  if (gave_nothing) {
    guard_.succeed_with_nothing();
  } else {
    guard_.succeed();
  }
}

void IterMap::end_call() {
  call_.reset();
  ++calls_;
  pulled_.clear();
  outputs_ = 0;
}

void IterMap::next_epoch() {
  if (call_ || has_begun_call()) {
    end_call();
  }
  is_inner_end_ = false;
  inner_->next_epoch();
}

Sample IterMap::restore_sample(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kIterMap, 2);
  IterCall call(options_, guard_, parts.integers[0],
                [&](std::size_t position) -> std::optional<Sample> {
                  if (position < parts.inner.size()) {
                    return inner_->restore_sample(parts.inner[position]);
                  }
                  return std::nullopt;
                });
  call.pass_over(parts.integers[1]);
  std::optional<Sample> output = call.next_output();
  if (!output || output->restore_key != key) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("restore key '{}' refers to an output that stage '{}' does not produce",
                            key.text(), guard_.name()));
  }
  return std::move(*output);
}

void IterMap::check_key(const RestoreKey& key) const {
  for (const RestoreKey& inner : split_key(key, Stage::kIterMap, 2).inner) {
    inner_->check_key(inner);
  }
}

State IterMap::save_state() const {
  return {"IterMap",
          {{"calls", calls_},
           {"pulled", encode_keys(pulled_)},
           {"outputs", outputs_},
           {"inner_end", std::int64_t{is_inner_end_}}},
          {inner_->save_state()}};
}

void IterMap::check_state(const State& state, std::vector<std::string>& differences) const {
  check_counts(state, {"calls", "outputs"}, differences);
  if (const std::int64_t end = state.integer("inner_end"); end != 0 && end != 1) {
    differences.push_back(fmt::format("IterMap: inner_end is {}, it must be 0 or 1", end));
  }
  try {
    if (const std::size_t count = decode_keys(state.bytes("pulled"), *inner_).size();
        count > static_cast<std::uint64_t>(options_.max_samples_per_call)) {
      differences.push_back(fmt::format("IterMap: {} samples pulled by a call, expected at most {}",
                                        count, options_.max_samples_per_call));
    }
  } catch (const Error& error) {
    differences.push_back("IterMap: " + error.message());
  }
  check(*inner_, state.children[0], differences);
}

void IterMap::apply_state(const State& state) {
  call_.reset();
  calls_ = state.integer("calls");
  pulled_ = decode_keys(state.bytes("pulled"));
  outputs_ = state.integer("outputs");
  is_inner_end_ = state.integer("inner_end") != 0;
  apply(*inner_, state.children[0]);
}

Config IterMap::config() const {
  Config config = {{"type", "IterMap"}, {"name", guard_.name()}, {"seed", options_.stage.seed}};
  if (!options_.settings.empty()) {
    config["settings"] = Config::parse(options_.settings);
  }
  config["inner"] = inner_->config();
  return config;
}

}  // namespace energon
