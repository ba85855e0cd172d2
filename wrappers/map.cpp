#include "wrappers/map.h"

#include <exception>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/bytes.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {

Mt19937& MapContext::rng() {
  if (!rng_) {
    Xxh3Stream stream;
    stream.update(std::as_bytes(std::span(&seed_, 1)));
    stream.update(as_bytes(key_.bytes()));
    rng_.emplace(static_cast<std::uint32_t>(stream.digest()));
  }
  return *rng_;
}

Map::Map(std::unique_ptr<Dataset> inner, std::string name, MapFunction function, std::uint32_t seed)
    : inner_(std::move(inner)),
      name_(std::move(name)),
      function_(std::move(function)),
      seed_(seed) {
  if (!function_) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("map '{}' has no function", name_));
  }
}

Sample Map::apply_function(Sample sample, std::int64_t call) const {
  const RestoreKey key = RestoreKey::around(Stage::kMap, {call}, sample.restore_key);
  const std::string sample_key = sample.keys.empty() ? "" : sample.keys.front();
  MapContext context(seed_, key, call);
  try {
    Sample result = function_(std::move(sample), context);
    result.restore_key = key;
    return result;
  } catch (Error& error) {
    error.with({.sample_key = sample_key});
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("map '{}' failed: {}", name_, error.what()),
                {.sample_key = sample_key});
  } catch (...) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("map '{}' threw something that is no std::exception", name_),
                {.sample_key = sample_key});
  }
}

std::optional<Sample> Map::next() {
  std::optional<Sample> sample = inner_->next();
  if (!sample) {
    return std::nullopt;
  }
  const std::int64_t call = calls_++;
  return apply_function(std::move(*sample), call);
}

void Map::next_many(std::int64_t count, std::vector<Sample>& samples) {
  const std::size_t first = samples.size();
  inner_->next_many(count, samples);
  for (std::size_t i = first; i < samples.size(); ++i) {
    const std::int64_t call = calls_++;
    samples[i] = apply_function(std::move(samples[i]), call);
  }
}

std::int64_t Map::skip(std::int64_t count) {
  const std::int64_t skipped = inner_->skip(count);
  calls_ += skipped;
  return skipped;
}

Sample Map::restore_sample(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kMap, 1, 1);
  return apply_function(inner_->restore_sample(parts.inner[0]), parts.integers[0]);
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
  return {{"type", "Map"}, {"name", name_}, {"seed", seed_}, {"inner", inner_->config()}};
}

}  // namespace energon
