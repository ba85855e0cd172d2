// Finds samples of a dataset by key.
//
//   const FoundSample found = find_sample("data", "cats/0042");
//   found.sample.bytes("jpg");                               // what it is
//   source_of(found.sample, 0).shard->shard_name;            // where it is
//
// In a prepared dataset, the key is looked up in index.sqlite, in all split parts unless one is
// given. In plain tars, the headers are walked, shard by shard, until the key is found; if shards
// repeat a key, the first one wins. In a metadataset, the first dataset that has the key wins.
// Samples of a JSONL file are found by number.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "io/dataset/dataset_folder.h"
#include "io/index/media_metadata.h"

namespace energon {

struct FindOptions {
  /// How shards are opened. Its split fields and exclusions are not used.
  OpenOptions open = {};

  /// The search is restricted to this split of a metadataset, or part of a prepared dataset.
  /// Absent: all. Plain tars and JSONL files ignore it.
  std::optional<std::string> split = std::nullopt;

  /// Called before each header of a tar that is walked. What it throws ends the search.
  std::function<void()> check_cancelled = nullptr;

  /// Called with each warning about the opened shards.
  std::function<void(const std::string&)> warn = nullptr;
};

struct FoundPart {
  std::string name = {};
  ByteRange content = {};  ///< in the uncompressed shard
  /// What was prepared about it (energon prepare-media); absent: nothing.
  std::optional<MediaMetadata> media = std::nullopt;
};

struct FoundSample {
  Sample sample;                 ///< read and, if the shard has checksums, verified
  ByteRange bytes;               ///< in the uncompressed shard, headers included
  std::vector<FoundPart> parts;  ///< in shard order, like the fields of `sample`
};

/// The sample with this key, of `path`: data of any kind that open_data() takes. Throws Error:
/// kNotFound if there is no such sample, kInvalidArgument if there is no such split, kCorruptData
/// if the dataset's files contradict each other, and as open_split().
FoundSample find_sample(const std::string& path, const std::string& key,
                        const FindOptions& options = {});

/// All samples with this key: from all datasets of a metadataset, and from all shards of plain
/// tars. Returns at least one; a dataset that is named twice may give its sample twice. Throws as
/// find_sample().
std::vector<FoundSample> find_samples(const std::string& path, const std::string& key,
                                      const FindOptions& options = {});

}  // namespace energon
