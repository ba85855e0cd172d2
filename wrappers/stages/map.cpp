#include "wrappers/stages/map.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "wrappers/held/combine.h"

namespace energon {

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
// order, those that replace others last.
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
        break;  // there is nothing to replace the others by, either
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

}  // namespace energon
