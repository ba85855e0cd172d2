#include "wrappers/stages/iter_map.h"

#include <exception>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "wrappers/held/combine.h"
#include "wrappers/held/saved_samples.h"
#include "wrappers/stages/iter_call.h"

namespace energon {

IterMap::IterMap(std::unique_ptr<Dataset> inner, IterMapOptions options)
    : inner_(std::move(inner)), options_(std::move(options)), guard_(options_.stage) {
  if (!options_.function) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("stage '{}' has no function", options_.stage.name));
  }
  if (options_.max_samples_per_call < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("max_samples_per_call is {}, it must be at least 1",
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
                            "must be a function of what it pulls and its context",
                            position));
  }
  if (static_cast<std::int64_t>(position) >= options_.max_samples_per_call) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("a call of stage '{}' pulled {} samples and wants more: let the "
                            "function end its generator earlier, as it is called again, or raise "
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

// Nothing: the call failed or has no more.
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

// Leaves out what the call pulled, if the policy allows it. Requires: called in an exception
// handler.
void IterMap::end_failed_call() {
  if (call_->has_source_failed()) {
    // Not the function's fault. The pulled samples are not lost: the call is made again over them.
    call_.reset();
    throw;
  }
  const bool would_repeat = !has_begun_call() && !is_inner_end_;
  std::vector<FailedSample> failed = failed_samples(call_->origins());
  end_call();
  guard_.handle(std::current_exception(), std::move(failed), false);
  if (would_repeat) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("stage '{}' failed before it pulled a sample; there is none that "
                            "could be left out",
                            guard_.name()));
  }
}

void IterMap::end_finished_call() {
  if (!has_begun_call() && !is_inner_end_) {
    call_.reset();
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a call of stage '{}' pulled no sample and gave none, although there "
                            "are more: it would be called for ever",
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
                fmt::format("restore key '{}' names an output that stage '{}' does not give",
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
      differences.push_back(fmt::format("IterMap: {} samples pulled by a call, at most {} may be",
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
