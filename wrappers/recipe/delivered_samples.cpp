#include "wrappers/recipe/delivered_samples.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "energon/checkpoint/state_config.h"
#include "energon/read/leaf_readers.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/restore_key.h"
#include "io/error.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

using PlaceInLeaves = std::pair<std::uint32_t, std::int64_t>;  // leaf, index

// Normalizes a path.
fs::path shard_path(const std::string& dataset, const std::string& shard) {
  return fs::weakly_canonical(fs::path(dataset) / shard);
}

std::optional<DeliveredItem> next_of(DeliveredItems& items, const CancelCheck& check_cancelled) {
  if (check_cancelled) {
    check_cancelled();
  }
  return items.next();
}

// Visits all items that `rank` delivered, so that they are verified when this returns.
void visit_delivered(DeliveredItems& items, const CancelCheck& check_cancelled,
                     const std::function<void(const DeliveredItem&)>& visit) {
  for (std::int64_t step = 0; step < items.delivered(); ++step) {
    if (const std::optional<DeliveredItem> item = next_of(items, check_cancelled)) {
      visit(*item);
    }
  }
}

// Calls `use(pipeline, is_last)` with each available pipeline for the state of `rank` until one
// fits, so that `use` does not throw Error (kMismatch). Requires: there are pipelines.
template <class Use>
auto first_that_fits(const SavableDataLoaderState& rank, const JobPipelines& pipelines,
                     const Use& use) {
  for (std::size_t i = 0; i + 1 < pipelines.size(); ++i) {
    try {
      return use(pipelines[i](rank.config), false);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported && error.code() != ErrorCode::kMismatch) {
        throw;
      }
    }
  }
  return use(pipelines.at(pipelines.size() - 1)(rank.config), true);
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

namespace {

std::vector<Delivery> deliveries_of(const SavableDataLoaderState& rank,
                                    const PipelineFactory& pipeline,
                                    const std::map<PlaceInLeaves, std::string>& wanted,
                                    const CancelCheck& check_cancelled) {
  DeliveredItems items(rank, pipeline);
  std::vector<Delivery> deliveries;
  visit_delivered(items, check_cancelled, [&](const DeliveredItem& item) {
    for (std::size_t i = 0; i < item.samples.size(); ++i) {
      const auto found = wanted.find({item.samples[i].leaf, item.samples[i].index});
      if (found != wanted.end()) {
        deliveries.push_back({.key = found->second,
                              .step = item.step,
                              .rank = items.rank(),
                              .position = static_cast<std::int64_t>(i),
                              .restore_key = item.restore_key});
      }
    }
  });
  return deliveries;
}

DeliveredItem delivered_item(const SavableDataLoaderState& rank, const PipelineFactory& pipeline,
                             std::int64_t step, const CancelCheck& check_cancelled) {
  DeliveredItems items(rank, pipeline);
  DeliveredItem wanted;
  visit_delivered(items, check_cancelled, [&](const DeliveredItem& item) {
    if (item.step == step) {
      wanted = item;
    }
  });
  return wanted;
}

// For a step after the state. With `is_last`, there is no other pipeline, so this one is used even
// if its items are unverified.
DeliveredItem later_item(const SavableDataLoaderState& rank, const PipelineFactory& pipeline,
                         bool is_last, std::int64_t step, const CancelCheck& check_cancelled) {
  if (!is_last) {
    DeliveredItems past(rank, pipeline);
    visit_delivered(past, check_cancelled, [](const DeliveredItem&) {});
  }
  DeliveredItems items(rank, pipeline, DeliveredItems::From::kState);
  std::optional<DeliveredItem> item;
  for (std::int64_t passed = items.delivered(); passed <= step; ++passed) {
    item = next_of(items, check_cancelled);
    if (!item) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("rank {} has no step {}: its data ends at {}", items.rank(), step, passed));
    }
  }
  return std::move(*item);
}

}  // namespace

std::vector<Delivery> find_deliveries(std::span<const SavableDataLoaderState> ranks,
                                      const JobPipelines& pipelines,
                                      std::span<const KeyedSample> samples,
                                      const CancelCheck& check_cancelled) {
  std::map<PlaceInLeaves, std::string> wanted;
  for (const KeyedSample& sample : samples) {
    wanted.emplace(PlaceInLeaves(sample.reference.leaf, sample.reference.index), sample.key);
  }
  std::vector<Delivery> deliveries;
  for (const SavableDataLoaderState& rank : ranks) {
    std::vector<Delivery> of_rank =
        first_that_fits(rank, pipelines, [&](const PipelineFactory& pipeline, bool /*is_last*/) {
          return deliveries_of(rank, pipeline, wanted, check_cancelled);
        });
    std::move(of_rank.begin(), of_rank.end(), std::back_inserter(deliveries));
  }
  return deliveries;
}

std::vector<DeliveredStep> keys_of_step(std::span<const SavableDataLoaderState> ranks,
                                        const JobPipelines& pipelines, const PipelineData& data,
                                        std::int64_t step, const CancelCheck& check_cancelled) {
  std::vector<DeliveredStep> steps;
  for (const SavableDataLoaderState& rank : ranks) {
    const bool is_delivered = step < delivered_items(rank);
    const DeliveredItem item =
        first_that_fits(rank, pipelines, [&](const PipelineFactory& pipeline, bool is_last) {
          return is_delivered ? delivered_item(rank, pipeline, step, check_cancelled)
                              : later_item(rank, pipeline, is_last, step, check_cancelled);
        });
    DeliveredStep& delivered = steps.emplace_back(DeliveredStep{.rank = layout_of(rank.config).rank,
                                                                .step = step,
                                                                .is_delivered = is_delivered,
                                                                .keys = {},
                                                                .restore_key = item.restore_key});
    for (const Sample& sample : read_samples(item.samples, data)) {
      delivered.keys.emplace_back(sample.keys.at(0));
    }
  }
  return steps;
}

// --- Reading samples by reference ---

std::vector<Sample> read_samples(std::span<const SampleRef> references, const PipelineData& data) {
  HeapBufferPool memory;
  LeafReaders readers;
  std::vector<Sample> samples;
  for (const SampleRef& reference : references) {
    if (reference.leaf >= data.leaves.size() ||
        reference.index >= data.leaves[reference.leaf].dataset->sample_count()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("there is no sample {} of dataset {} (of {}); was different data used?",
                      reference.index, reference.leaf, data.leaves.size()));
    }
    readers.of(data.leaves[reference.leaf].dataset)->read({&reference.index, 1}, memory, samples);
    samples.back().restore_key =
        RestoreKey::leaf(Stage::kWebdataset, {reference.leaf, reference.index});
  }
  return samples;
}

}  // namespace energon
