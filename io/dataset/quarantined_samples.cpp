#include "io/dataset/quarantined_samples.h"

#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "io/dataset/quarantine.h"
#include "io/error.h"

namespace energon {
namespace {

void drop_shards(const std::set<std::string>& names, ShardSet& set) {
  const std::size_t before = set.shards.size();
  std::erase_if(set.shards, [&](const ShardFile& shard) { return names.contains(shard.name); });
  if (set.shards.empty() && before > 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("all {} shards are in quarantine", before),
                {.path = set.dataset_path});
  }
}

}  // namespace

std::vector<std::string> QuarantinedSamples::entries() const {
  std::vector<std::string> result;
  result.reserve(keys.size());
  for (const auto& [shard, key] : keys) {
    result.push_back(fmt::format("{}/{}", shard, key));
  }
  return result;
}

QuarantinedSamples take_quarantined(const std::vector<std::string>& files, ShardSet& set) {
  QuarantinedSamples samples;
  if (files.empty()) {
    return samples;
  }
  std::set<std::string> shards;
  std::set<std::string> known;
  for (const ShardFile& shard : set.shards) {
    known.insert(shard.name);
  }
  DatasetFilter filter(set.dataset_path);
  for (const std::string& file : files) {
    const Quarantine quarantine = read_quarantine(file);
    set.warnings.insert(set.warnings.end(), quarantine.warnings.begin(), quarantine.warnings.end());
    for (const QuarantineEntry& entry : quarantine.entries) {
      // Shards of other split parts are nothing to warn about.
      if (!filter.matches(entry) || !known.contains(entry.shard_name)) {
        continue;
      }
      if (entry.is_shard()) {
        shards.insert(entry.shard_name);
      } else if (entry.index) {
        samples.places.emplace_back(entry.shard_name, *entry.index);
      } else {
        samples.keys.emplace_back(entry.shard_name, *entry.key);
      }
    }
  }
  const auto is_dropped = [&](const auto& place) { return shards.contains(place.first); };
  std::erase_if(samples.places, is_dropped);
  std::erase_if(samples.keys, is_dropped);
  drop_shards(shards, set);
  return samples;
}

void exclude_by_index(const QuarantinedSamples& quarantined, ShardSet& set) {
  if (quarantined.places.empty()) {
    return;
  }
  // One shard may be there several times.
  std::unordered_multimap<std::string, std::int64_t> numbers;
  for (std::size_t i = 0; i < set.shards.size(); ++i) {
    numbers.emplace(set.shards[i].name, static_cast<std::int64_t>(i));
  }
  for (const auto& [name, index] : quarantined.places) {
    const auto [first, last] = numbers.equal_range(name);
    for (auto number = first; number != last; ++number) {
      if (index < set.shards[static_cast<std::size_t>(number->second)].sample_count) {
        set.excludes.push_back({.shard = number->second, .sample = index});
      } else {
        set.warnings.push_back(fmt::format("quarantined sample {} of shard '{}' does not exist",
                                           index, printable(name)));
      }
    }
  }
}

}  // namespace energon
