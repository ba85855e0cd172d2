// `.nv-meta/.info.json`: the shards of a prepared dataset and their sample counts.
//
// The order of the shards is kept on reading and writing, because a shard's position is its
// tar_file_id in index.sqlite. The file is written byte for byte as Energon writes it. Reading is
// strict: an unknown key is an error. If .info.json is absent, the older `.info.yaml` is read.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace energon {

struct ShardCount {
  std::string name;  ///< path relative to the dataset's folder
  std::int64_t sample_count = 0;

  bool operator==(const ShardCount&) const = default;
};

/// Such a tar would have 17 TB of headers alone; and the counts of all shards can be added.
constexpr std::int64_t kMostSamplesOfShard = std::int64_t{1} << 35;

struct DatasetInfo {
  std::optional<std::string> energon_version = std::nullopt;  ///< the software that prepared it
  std::vector<ShardCount> shards = {};

  bool operator==(const DatasetInfo&) const = default;
};

/// Name and version that prepare() writes as energon_version.
std::string_view writer_version();

/// Whether any version of this library's prepare() wrote `info`.
bool is_written_by_us(const DatasetInfo& info);

/// `path` is named in errors. Throw Error (kCorruptData) for content that is not such a file, a
/// negative count, or a shard named twice.
DatasetInfo parse_info_json(std::string_view text, const std::string& path);
DatasetInfo parse_info_yaml(const std::string& text, const std::string& path);

/// Reads .info.json, else .info.yaml, in `meta_folder`. Empty if neither exists. First completes a
/// prepare that was killed while it replaced the files. Throws Error: kCorruptData, kIo,
/// kInvalidArgument if this process is not permitted to complete it.
std::optional<DatasetInfo> read_dataset_info(const std::string& meta_folder);

/// The two steps of it, for use in read_committed(): the content of .info.json, empty if there is
/// no such file; and the rest, for such a content.
std::optional<std::string> read_info_text(const std::string& meta_folder);
std::optional<DatasetInfo> parse_info(const std::optional<std::string>& info_text,
                                      const std::string& meta_folder);

/// The content of .info.json. Throws Error (kInvalidArgument) if a name is not UTF-8.
std::string to_info_json(const DatasetInfo& info);

}  // namespace energon
