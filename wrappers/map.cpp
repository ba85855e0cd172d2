#include "wrappers/map.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "wrappers/combine.h"

namespace energon {

Sample call_map(const MapFunction& function, Sample sample, std::uint32_t seed, std::int64_t call) {
  const RestoreKey key = RestoreKey::around(Stage::kMap, {call}, sample.restore_key);
  CallContext context(seed, key, call);
  Sample result = function(std::move(sample), context);
  result.restore_key = key;
  return result;
}

Map::Map(std::unique_ptr<Dataset> inner, MapFunction function, const StageOptions& options)
    : inner_(std::move(inner)),
      function_(std::move(function)),
      seed_(options.seed),
      guard_(options) {
  if (!function_) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("stage '{}' has no function", options.name));
  }
}

std::optional<Sample> Map::guarded(Sample sample) {
  const std::int64_t call = calls_++;
  const Sample origins = origins_of(sample);
  return guard_.run([&] { return call_map(function_, std::move(sample), seed_, call); },
                    [&origins] { return failed_samples(origins); });
}

std::optional<Sample> Map::next() {
  while (std::optional<Sample> sample = inner_->next()) {
    if (auto result = guarded(std::move(*sample))) {
      return result;
    }
  }
  return std::nullopt;
}

void Map::next_many(std::int64_t count, std::vector<Sample>& samples) {
  const std::size_t end = samples.size() + static_cast<std::size_t>(count);
  while (samples.size() < end) {
    const std::size_t first = samples.size();
    const std::size_t wanted = end - first;
    inner_->next_many(static_cast<std::int64_t>(wanted), samples);
    const bool is_end = samples.size() < end;
    std::size_t kept = first;
    for (std::size_t i = first; i < samples.size(); ++i) {
      if (auto result = guarded(std::move(samples[i]))) {
        samples[kept++] = std::move(*result);
      }
    }
    samples.resize(kept);
    if (is_end) {
      return;
    }
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
  return call_map(function_, inner_->restore_sample(parts.inner[0]), seed_, parts.integers[0]);
}

State Map::save_state() const { return {"Map", {{"calls", calls_}}, {inner_->save_state()}}; }

void Map::check_state(const State& state, std::vector<std::string>& differences) const {
  if (state.integer("calls") < 0) {
    differences.push_back(fmt::format("Map: called {} times", state.integer("calls")));
  }
  check(*inner_, state.children[0], differences);
}

void Map::apply_state(const State& state) {
  calls_ = state.integer("calls");
  apply(*inner_, state.children[0]);
}

Config Map::config() const {
  return {{"type", "Map"}, {"name", guard_.name()}, {"seed", seed_}, {"inner", inner_->config()}};
}

}  // namespace energon
