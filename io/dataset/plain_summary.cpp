#include "io/dataset/plain_summary.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "io/dataset/shard_opening.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/checksum_file.h"
#include "io/index/index_cache.h"
#include "io/index/tar_index.h"
#include "io/shared_folder.h"
#include "io/tar/compression.h"

namespace energon {
namespace {

constexpr std::size_t kLeastTars = 16;  // fewer are looked at
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 36;

bool is_summary(std::string_view name) { return name.ends_with(".bin"); }

std::uint64_t digest_of_folder(const std::string& folder) { return xxh3_64(as_bytes(folder)); }

// Empty if there is none, or none that can be used.
ShardSummary read_summary(const std::string& path, const std::string& folder) {
  try {
    ShardSummary summary = ShardSummary::parse(read_file(path, kMostBytes), path);
    if (summary.set_digest == digest_of_folder(folder)) {
      return summary;
    }
  } catch (const Error&) {  // then all tars are looked at
  }
  return {};
}

}  // namespace

std::shared_ptr<const PlainSummary> PlainSummary::find(const ShardList& list,
                                                       const OpenOptions& options) {
  const auto cache = find_folder_in_cache(options.cache_dir, "summary");
  if (!may_check_later(options) || list.names.size() < kLeastTars || !cache) {
    return nullptr;
  }
  const std::string name = std::filesystem::path(list.folder).filename().string();
  constexpr std::size_t kMostNameBytes = 100;
  return std::make_shared<const PlainSummary>(
      list.folder, options,
      fmt::format("{}/{}-{}.bin", *cache, name.substr(0, kMostNameBytes),
                  to_hex(digest_of_folder(list.folder))));
}

PlainSummary::PlainSummary(std::string folder, const OpenOptions& options, std::string path)
    : folder_(std::move(folder)),
      options_{.cache_dir = options.cache_dir},
      path_(std::move(path)),
      summary_(read_summary(path_, folder_)),
      shards_(summary_.shards.size()) {
  for (const SummarizedShard& shard : summary_.shards) {
    shards_.emplace(shard.record.name, &shard);
  }
}

std::string PlainSummary::index_path(const ShardFile& shard, bool is_in_cache) const {
  return is_in_cache ? fmt::format("{}/{}.tar.idx", folder_in_cache(options_.cache_dir, "index"),
                                   cache_name(shard.tar_path, shard.tar_identity))
                     : tar_index_path(shard.tar_path);
}

bool PlainSummary::describe(ShardFile& shard, std::vector<std::string>& warnings) const {
  const auto found = shards_.find(shard.name);
  if (found == shards_.end()) {
    return false;
  }
  const SummarizedShard& known = *found->second;
  std::string path = folder_ + "/" + shard.name;
  const std::optional<FileIdentity> identity = identity_of(path);
  if (!identity || identity->size_bytes != known.record.size_bytes ||
      identity->mtime_ns != known.record.mtime_ns) {
    return false;
  }
  shard.tar_path = std::move(path);
  shard.tar_identity = *identity;
  shard.tar_size = identity->size_bytes;
  shard.index_path = index_path(shard, known.is_index_in_cache);
  shard.noted_index_digest = known.record.index_digest;
  shard.sample_count = known.sample_count;
  shard.is_checked = false;
  if (known.has_checksums) {
    shard.checksum_path = checksum_path(shard.index_path);
    shard.checksum_digest = known.checksum_digest;
  }
  if (auto odd = missing_end(known.end_offset, shard.tar_size)) {
    warnings.push_back(std::move(*odd));
  }
  return true;
}

void PlainSummary::digest(ShardFile& shard) {
  if (compression_of_name(shard.name) != Compression::kNone) {
    return;
  }
  shard.noted_index_digest = TarIndex::load(shard.index_path, shard.tar_size).digest();
  if (!shard.checksum_path.empty()) {
    shard.checksum_digest = xxh3_64(as_bytes(read_file(shard.checksum_path, kMostBytes)));
  }
}

CheckShard PlainSummary::check() const {
  return [self = shared_from_this()](const ShardFile& shard) { return self->check(shard); };
}

ShardFile PlainSummary::check(const ShardFile& shard) const {
  if (identity_of(shard.tar_path) != shard.tar_identity) {
    return shard;  // its reader, who opens it, says that it changed
  }
  ShardFile file{.name = shard.name};
  open_plain_shard(file, folder_, options_);
  digest(file);
  if (file.sample_count != shard.sample_count ||
      file.noted_index_digest != shard.noted_index_digest) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("the index of shard '{}' is not the one that was noted when the folder "
                    "was opened before: it has {} samples, then it had {}; remove '{}' "
                    "and begin again",
                    printable(shard.name), file.sample_count, shard.sample_count, printable(path_)),
        {.path = file.index_path});
  }
  return file;
}

void PlainSummary::note(const ShardSet& set) const {
  const auto is_looked_at = [](const ShardFile& shard) {
    return shard.is_checked && shard.noted_index_digest;
  };
  if (std::none_of(set.shards.begin(), set.shards.end(), is_looked_at)) {
    return;
  }
  try {
    ShardSummary summary{.set_digest = digest_of_folder(folder_), .shards = {}};
    for (const ShardFile& shard : set.shards) {
      if (!shard.noted_index_digest) {
        continue;
      }
      const auto known = shards_.find(shard.name);
      summary.shards.push_back(
          {.record = {.name = shard.name,
                      .size_bytes = shard.tar_identity.size_bytes,
                      .mtime_ns = shard.tar_identity.mtime_ns,
                      .index_digest = *shard.noted_index_digest},
           .sample_count = shard.sample_count,
           .end_offset = shard.is_checked
                             ? summarize_tar_index(shard.index_path, shard.tar_size).end_offset
                             : known->second->end_offset,
           .has_checksums = shard.checksum_digest.has_value(),
           .checksum_digest = shard.checksum_digest.value_or(0),
           .is_index_in_cache = shard.index_path != tar_index_path(shard.tar_path)});
    }
    const std::string folder = folder_of(path_);
    make_cache_folder(folder);
    remove_abandoned_once(folder, is_summary);
    write_file_atomically(path_, as_bytes(summary.encode()), 0600);
  } catch (const Error&) {  // the next opening looks again
  }
}

}  // namespace energon
