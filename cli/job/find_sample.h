// Finds samples of a dataset by key.
//
// In a prepared dataset, the key is looked up in index.sqlite, in all split parts unless one is
// given. In plain tars, the headers are walked, shard by shard, until the key is found; if shards
// repeat a key, the first one wins. In a metadataset, the first dataset that has the key wins.
// Samples of a JSONL file are found by number.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/sample.h"
#include "io/dataset/dataset_folder.h"
#include "io/index/tar_index.h"

namespace energon::cli {

/// A parsed request: "key" or "key.part". No key has a dot in its last component.
struct WantedSample {
  std::string key;
  std::optional<std::string> part;
};
WantedSample parse_wanted(std::string_view text);

struct FoundPart {
  std::string name;
  ByteRange content;  ///< in the uncompressed shard
};

struct FoundSample {
  Sample sample;                 ///< read and, if the shard has checksums, verified
  ByteRange bytes;               ///< in the uncompressed shard, headers included
  std::vector<FoundPart> parts;  ///< in shard order, like the fields of `sample`
};

/// `open` says how shards are opened; its split fields are not used. `split` restricts the search
/// to one split of a metadataset, or one part of a prepared dataset; absent: all. Plain tars and
/// JSONL files ignore it. Throws Error: kNotFound if there is no such sample, kInvalidArgument if
/// there is no such split, and as open_split().
FoundSample find_sample(const std::string& path, const std::string& key,
                        const std::optional<std::string>& split, const OpenOptions& open);

/// All samples with this key, in any split: from all datasets of a metadataset, and from all shards
/// of plain tars. Returns at least one; a dataset that is named twice may give its sample twice.
/// Throws as find_sample().
std::vector<FoundSample> find_samples(const std::string& path, const std::string& key,
                                      const OpenOptions& open);

}  // namespace energon::cli
