#include "wrappers/recipe/delivered_samples.h"

#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "wrappers/recipe/referenced_samples.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

using PlaceInLeaves = std::pair<std::uint32_t, std::int64_t>;  // leaf, index

// Whichever way a path was written.
fs::path shard_path(const std::string& dataset, const std::string& shard) {
  return fs::weakly_canonical(fs::path(dataset) / shard);
}

std::optional<DeliveredItem> next_of(DeliveredItems& items, const CancelCheck& check_cancelled) {
  if (check_cancelled) {
    check_cancelled();
  }
  return items.next();
}

}  // namespace

std::vector<KeyedSample> locate_samples(std::span<const FoundSample> found,
                                        const PipelineData& data) {
  std::multimap<fs::path, const FoundSample*> by_shard;
  for (const FoundSample& sample : found) {
    const SourceShard& shard = *source_of(sample.sample, 0).shard;
    by_shard.emplace(shard_path(shard.dataset_path, shard.shard_name), &sample);
  }
  std::map<PlaceInLeaves, std::string> keys;
  for (std::size_t leaf = 0; leaf < data.leaves.size(); ++leaf) {
    const auto reader = data.leaves[leaf].dataset->open_reader();
    std::int64_t first = 0;
    for (const std::int64_t count : data.leaves[leaf].dataset->shard_counts()) {
      if (count > 0) {
        const FailedSample begin = reader->describe(first);
        const auto [from, to] =
            by_shard.equal_range(shard_path(begin.dataset_path, begin.shard_name));
        for (auto place = from; place != to; ++place) {
          const Sample& sample = place->second->sample;
          keys.emplace(PlaceInLeaves(static_cast<std::uint32_t>(leaf),
                                     first + source_of(sample, 0).index_in_shard),
                       sample.keys.at(0));
        }
      }
      first += count;
    }
  }
  std::vector<KeyedSample> located;
  for (auto& [place, key] : keys) {
    located.push_back({std::move(key), {.index = place.second, .leaf = place.first}});
  }
  return located;
}

void for_each_delivery(DeliveredItems& items, std::span<const KeyedSample> samples,
                       const std::function<void(const Delivery&)>& visit,
                       const CancelCheck& check_cancelled) {
  std::map<PlaceInLeaves, std::string> wanted;
  for (const KeyedSample& sample : samples) {
    wanted.emplace(PlaceInLeaves(sample.reference.leaf, sample.reference.index), sample.key);
  }
  while (const auto item = next_of(items, check_cancelled)) {
    if (item->step >= items.delivered()) {
      return;
    }
    for (std::size_t i = 0; i < item->samples.size(); ++i) {
      const auto found = wanted.find({item->samples[i].leaf, item->samples[i].index});
      if (found != wanted.end()) {
        visit({.key = found->second,
               .step = item->step,
               .rank = items.rank(),
               .position = static_cast<std::int64_t>(i),
               .restore_key = item->restore_key});
      }
    }
  }
}

std::vector<Delivery> find_deliveries(std::span<const SavableDataLoaderState> ranks,
                                      const PipelineOfConfig& pipeline_of,
                                      std::span<const KeyedSample> samples,
                                      const CancelCheck& check_cancelled) {
  std::vector<Delivery> deliveries;
  for (const SavableDataLoaderState& rank : ranks) {
    DeliveredItems items(rank, pipeline_of(rank.config));
    for_each_delivery(
        items, samples, [&](const Delivery& delivery) { deliveries.push_back(delivery); },
        check_cancelled);
  }
  return deliveries;
}

DeliveredStep keys_of_step(DeliveredItems& items, const PipelineData& data, std::int64_t step,
                           const CancelCheck& check_cancelled) {
  std::optional<DeliveredItem> item;
  for (std::int64_t passed = 0; passed <= step; ++passed) {
    item = next_of(items, check_cancelled);
    if (!item) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("rank {} has no step {}: its data ends at {}", items.rank(), step, passed));
    }
  }
  DeliveredStep delivered{.rank = items.rank(), .keys = {}, .restore_key = item->restore_key};
  for (const Sample& sample : read_samples(item->samples, data)) {
    delivered.keys.emplace_back(sample.keys.at(0));
  }
  return delivered;
}

std::vector<DeliveredStep> keys_of_step(std::span<const SavableDataLoaderState> ranks,
                                        const PipelineOfConfig& pipeline_of,
                                        const PipelineData& data, std::int64_t step,
                                        const CancelCheck& check_cancelled) {
  std::vector<DeliveredStep> steps;
  for (const SavableDataLoaderState& rank : ranks) {
    DeliveredItems items(rank, pipeline_of(rank.config));
    steps.push_back(keys_of_step(items, data, step, check_cancelled));
  }
  return steps;
}

}  // namespace energon
