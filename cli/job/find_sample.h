// One sample of a dataset, found by its key.
//
// A prepared dataset is asked through its index.sqlite, whatever part of the split the sample is
// in, unless one is asked for; of plain tars the headers are walked, shard by shard, until the key
// comes. The first one wins if plain shards repeat a key. In a metadataset the first dataset that
// has the key wins; samples of a JSONL file are found by their number.

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

/// What `text` asks for: "key", or "key.part". No key has a dot in its last component.
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
  std::vector<FoundPart> parts;  ///< in the order of the shard, as the fields of `sample`
};

/// `open` says how shards are opened; its split fields are not used.
/// `split`: only in this split of a metadataset, or part of a prepared dataset; absent: in all.
/// Plain tars and JSONL files have none, it means nothing to them. Throws Error: kNotFound if there
/// is no such sample, kInvalidArgument if there is no such split, and as open_split().
FoundSample find_sample(const std::string& path, const std::string& key,
                        const std::optional<std::string>& split, const OpenOptions& open);

/// All samples with this key: of all datasets of a metadataset, of all shards of plain tars, of any
/// split. At least one; a dataset that is named twice may give its sample twice. Throws as
/// find_sample().
std::vector<FoundSample> find_samples(const std::string& path, const std::string& key,
                                      const OpenOptions& open);

}  // namespace energon::cli
