// A small prepared dataset and its record, for tests.

#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/shard_record.h"
#include "io/file.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

namespace energon::testing {

/// `a.tar` with 100 samples and `d/b.tar` with 5.
struct RecordedFolder {
  TempDir root;
  std::string data = root.file("data");

  explicit RecordedFolder(Checksums checksums = Checksums::kNone) {
    root.write("data/a.tar", make_shard(0, 100));
    root.write("data/d/b.tar", make_shard(100, 5));
    prepare_folder(data, {.checksums = checksums});
  }
  std::string file(const std::string& name) const { return data + "/" + name; }
  void write(const std::string& name, const std::string& content) const {
    write_file_atomically(file(name), as_bytes(content));
  }
  OpenOptions options(CheckShards check_shards) const {
    return {.check_shards = check_shards, .cache_dir = root.file("cache")};
  }
  ShardSet open(CheckShards check_shards = CheckShards::kAtFirstRead) const {
    return open_split(data, options(check_shards));
  }
  /// The error of open(CheckShards::kAtOpening).
  std::pair<ErrorCode, std::string> open_error() const {
    return error_of([&] { open(CheckShards::kAtOpening); });
  }
  std::shared_ptr<const ShardRecords> records() const {
    const std::string meta = file(".nv-meta");
    return ShardRecords::load_matching(meta, *read_info_text(meta));
  }
};

inline bool is_unchecked(const ShardSet& set) {
  return std::none_of(set.shards.begin(), set.shards.end(),
                      [](const ShardFile& shard) { return shard.is_checked; });
}

inline bool is_checked(const ShardSet& set) {
  return set.check == nullptr &&
         std::all_of(set.shards.begin(), set.shards.end(),
                     [](const ShardFile& shard) { return shard.is_checked; });
}

}  // namespace energon::testing
