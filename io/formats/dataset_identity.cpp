#include "io/formats/dataset_identity.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/error.h"
#include "io/formats/tar_index.h"
#include "io/hash.h"

namespace energon {

std::vector<ShardIdentity> shard_identities(const ShardSet& set) {
  std::vector<ShardIdentity> result;
  result.reserve(set.shards.size());
  for (const ShardFile& shard : set.shards) {
    const TarIndex index = TarIndex::load(shard.index_path, shard.tar_size);
    result.push_back(
        {.name = shard.name, .sample_count = shard.sample_count, .index_digest = index.digest()});
  }
  return result;
}

std::uint64_t fingerprint(const ShardSet& set) {
  return fingerprint(shard_identities(set), set.excludes);
}

std::uint64_t fingerprint(const std::vector<ShardIdentity>& shards,
                          const std::vector<SampleExclude>& excludes) {
  Xxh3Stream stream;
  const auto add = [&](const auto& value) { stream.update(std::as_bytes(std::span(&value, 1))); };
  add(static_cast<std::uint64_t>(shards.size()));
  for (const ShardIdentity& shard : shards) {
    stream.update_field(as_bytes(shard.name));
    add(shard.sample_count);
    add(shard.index_digest);
  }
  for (const SampleExclude& exclude : excludes) {
    add(exclude.shard);
    add(exclude.sample);
  }
  return stream.digest();
}

std::vector<std::string> differences(const std::vector<ShardIdentity>& saved,
                                     const std::vector<ShardIdentity>& current) {
  std::vector<std::string> result;
  std::unordered_map<std::string, const ShardIdentity*> by_name;
  for (const ShardIdentity& shard : current) {
    by_name.emplace(shard.name, &shard);
  }
  std::unordered_map<std::string, const ShardIdentity*> saved_by_name;
  for (const ShardIdentity& shard : saved) {
    saved_by_name.emplace(shard.name, &shard);
    const auto found = by_name.find(shard.name);
    if (found == by_name.end()) {
      result.push_back(fmt::format("shard '{}' is gone", printable(shard.name)));
    } else if (found->second->sample_count != shard.sample_count) {
      result.push_back(fmt::format("shard '{}' had {} samples, now {}", printable(shard.name),
                                   shard.sample_count, found->second->sample_count));
    } else if (found->second->index_digest != shard.index_digest) {
      result.push_back(
          fmt::format("shard '{}' has {} samples as before, but at other offsets: its "
                      "content changed",
                      printable(shard.name), shard.sample_count));
    }
  }
  for (const ShardIdentity& shard : current) {
    if (!saved_by_name.contains(shard.name)) {
      result.push_back(fmt::format("shard '{}' is new", printable(shard.name)));
    }
  }
  const auto same_name = [](const ShardIdentity& a, const ShardIdentity& b) {
    return a.name == b.name;
  };
  if (result.empty() &&
      !std::equal(saved.begin(), saved.end(), current.begin(), current.end(), same_name)) {
    result.push_back("the shards are the same, but in another order or number of times");
  }
  return result;
}

}  // namespace energon
