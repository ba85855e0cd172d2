// Finds samples of a dataset by key.
//
//   const FoundSample found = find_sample("data", "cats/0042");
//   found.sample.bytes("jpg");                               // its content
//   source_of(found.sample, 0).shard->shard_name;            // its place
//
// In a prepared dataset, the key is looked up in index.sqlite, in all split parts by default. In
// plain tars, the headers are scanned shard by shard until the key is found; if shards repeat a
// key, the first shard wins. In a metadataset, the first dataset that has the key wins.
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
  /// Unset means all. Ignored for plain tars and JSONL files.
  std::optional<std::string> split = std::nullopt;

  /// Whether found samples are read. If not, damaged samples are found, too, and FoundSample has
  /// only their keys and sources.
  bool reads = true;

  /// Called before each header of a tar that is scanned. An exception ends the search.
  std::function<void()> check_cancelled = nullptr;

  /// Called with each warning about the opened shards.
  std::function<void(const std::string&)> warn = nullptr;
};

struct FoundPart {
  std::string name = {};
  ByteRange content = {};  ///< in the uncompressed shard
  /// Media metadata (energon prepare-media); unset if not prepared.
  std::optional<MediaMetadata> media = std::nullopt;
};

struct FoundSample {
  Sample sample;                 ///< read and, if the shard has checksums, verified
  ByteRange bytes;               ///< in the uncompressed shard, headers included
  std::vector<FoundPart> parts;  ///< in shard order, like the fields of `sample`
};

/// The sample with this key in `path`, which may be any kind of data that open_data() accepts.
/// Throws Error: kNotFound if the sample does not exist, kInvalidArgument if the split does not
/// exist, kCorruptData if the dataset's files contradict each other, and like open_split().
FoundSample find_sample(const std::string& path, const std::string& key,
                        const FindOptions& options = {});

/// All samples with this key: from all datasets of a metadataset, and from all shards of plain
/// tars. Returns at least one; a dataset that is named twice may yield its sample twice. Throws
/// like find_sample().
std::vector<FoundSample> find_samples(const std::string& path, const std::string& key,
                                      const FindOptions& options = {});

}  // namespace energon
