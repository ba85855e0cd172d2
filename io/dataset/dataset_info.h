// `.nv-meta/.info.json`: the shards of a prepared dataset and their sample counts.
//
// Reading and writing preserve the order of the shards, because a shard's position is its
// tar_file_id in index.sqlite. The file is byte-identical to Energon's. Reading is strict: an
// unknown key is an error. If .info.json is absent, the older `.info.yaml` is read.

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

/// Maximum number of samples in a shard: such a tar would have 17 TB of headers alone, and the sum
/// over all shards does not overflow.
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

/// Errors name `path`. Throws Error (kCorruptData) for content of another form, a negative count,
/// or a shard listed twice.
DatasetInfo parse_info_json(std::string_view text, const std::string& path);
DatasetInfo parse_info_yaml(const std::string& text, const std::string& path);

/// Reads .info.json, else .info.yaml, in `meta_folder`. Nullopt if neither exists. First completes
/// a prepare that was killed while it replaced the files. Throws Error: kCorruptData, kIo,
/// kInvalidArgument if this process is not permitted to complete it.
std::optional<DatasetInfo> read_dataset_info(const std::string& meta_folder);

/// The two steps of read_dataset_info(), for use in read_committed(): the content of .info.json, or
/// nullopt if the file does not exist; and the rest, given that content.
std::optional<std::string> read_info_text(const std::string& meta_folder);
std::optional<DatasetInfo> parse_info(const std::optional<std::string>& info_text,
                                      const std::string& meta_folder);

/// Serializes `info` as .info.json. Throws Error (kInvalidArgument) if a name is not UTF-8.
std::string to_info_json(const DatasetInfo& info);

}  // namespace energon
