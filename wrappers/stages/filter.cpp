#include "wrappers/stages/filter.h"

#include <exception>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/hash.h"

namespace energon {

// The key does not tell the draws of a filter from those of the stage before it, so the name must.
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

}  // namespace energon
