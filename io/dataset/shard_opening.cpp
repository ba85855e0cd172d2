#include "io/dataset/shard_opening.h"

#include <utility>

#include "io/dataset/expanded_copy.h"
#include "io/file.h"
#include "io/index/checksum_file.h"
#include "io/index/index_cache.h"
#include "io/index/tar_index.h"
#include "io/tar/shard_scan.h"

namespace energon {
namespace {

// What is odd about the end of a tar that has an index already. Throws Error if the options say so.
std::optional<std::string> odd_end(const FileSource& tar, std::uint64_t end_offset,
                                   ScanStrictness strictness) {
  // Only the strict look at what is behind the first zero block.
  if (strictness != ScanStrictness::kStrict) {
    return missing_end(end_offset, tar.size());
  }
  if (const ArchiveTail tail = check_archive_tail(tar, end_offset);
      tail != ArchiveTail::kComplete) {
    throw Error(ErrorCode::kCorruptData, describe(tail, end_offset), {.byte_offset = end_offset});
  }
  return std::nullopt;
}

FileSource open_listed(const std::string& path, const std::string& name) {
  try {
    return FileSource(path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) {
      throw;
    }
    throw Error(ErrorCode::kNotFound,
                fmt::format("the shard '{}' is missing, which .info.json and the split file name",
                            printable(name)),
                {.path = path});
  }
}

}  // namespace

void fail_unprepared(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the dataset is not prepared completely: {}; run: energon prepare {}",
                          what, printable(path)),
              {.path = path});
}

std::optional<std::string> missing_end(std::uint64_t end_offset, std::uint64_t tar_size) {
  return end_offset == tar_size ? std::optional(describe(ArchiveTail::kNoEnd, end_offset))
                                : std::nullopt;
}

std::optional<std::string> measure_shard(ShardFile& shard, const FileSource& tar,
                                         ScanStrictness strictness) {
  shard.tar_size = tar.size();
  shard.tar_identity = tar.identity();
  try {
    const TarIndexSummary summary = summarize_tar_index(shard.index_path, tar.size());
    shard.sample_count = summary.sample_count;
    check_archive_end(tar, summary.end_offset);
    return odd_end(tar, summary.end_offset, strictness);
  } catch (Error& error) {
    // The path in the context is that of the tar or that of the index, and either may be to blame.
    throw Error(error.code(),
                fmt::format("shard '{}': {} (its index is '{}')", printable(shard.name),
                            error.message(), printable(shard.index_path)),
                error.context());
  }
}

bool may_check_later(const OpenOptions& options) {
  return options.check_shards == CheckShards::kAtFirstRead &&
         options.broken_shards == BrokenShards::kFail &&
         options.strictness == ScanStrictness::kNormal;
}

std::vector<std::string> open_plain_shard(ShardFile& shard, const std::string& folder,
                                          const OpenOptions& options) {
  std::vector<std::string> warnings;
  const std::string original = folder + "/" + shard.name;
  shard.tar_path = ensure_expanded(original, options.cache_dir);
  read_copy(original, shard.tar_path, [&] {
    IndexedTar indexed = index_tar(original, shard.tar_path, options.cache_dir, options.strictness);
    shard.index_path = indexed.index_path;
    warnings = std::move(indexed.warnings);
    if (auto odd = measure_shard(shard, FileSource(shard.tar_path), options.strictness);
        odd && !indexed.is_new) {
      warnings.push_back(std::move(*odd));
    }
  });
  // Only an index beside the data has checksums, never one in the cache.
  const std::string checksums = checksum_path(shard.index_path);
  shard.checksum_path = path_exists(checksums) ? checksums : "";
  return warnings;
}

std::optional<std::string> open_shard(ShardFile& shard, std::int64_t count_in_info,
                                      const std::string& folder, const ShardRecord* record,
                                      const OpenOptions& options) {
  const std::string original = folder + "/" + shard.name;
  // Opened once: what is checked is what is recorded of it, whoever replaces it meanwhile.
  const FileSource file = open_listed(original, shard.name);
  shard.index_path = tar_index_path(original);
  if (!path_exists(shard.index_path)) {
    fail_unprepared(folder, fmt::format("the index '{}' is missing", printable(shard.index_path)));
  }
  shard.tar_path = ensure_expanded(file, options.cache_dir);
  std::optional<FileSource> expanded;
  if (shard.tar_path != original) {
    expanded.emplace(shard.tar_path);
  }
  const FileSource& tar = expanded ? *expanded : file;
  std::optional<std::string> oddity = read_copy(
      original, shard.tar_path, [&] { return measure_shard(shard, tar, options.strictness); });
  if (shard.sample_count != count_in_info) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("shard '{}' has {} samples by .info.json, but {} by its index; prepare "
                            "the dataset again (energon prepare --force-overwrite)",
                            printable(shard.name), count_in_info, shard.sample_count),
                {.path = shard.index_path});
  }
  if (record != nullptr) {
    read_copy(original, shard.tar_path, [&] {
      check_recorded_once(*record, file, tar, shard.index_path, options.cache_dir);
    });
    shard.index_digest = record->index_digest;
  }
  if (const std::string checksums = checksum_path(shard.index_path); path_exists(checksums)) {
    shard.checksum_path = checksums;
  }
  return oddity;
}

void check_has_checksums(const ShardFile& shard, bool prepared_with_checksums,
                         const OpenOptions& options) {
  if (shard.checksum_path.empty() && prepared_with_checksums && options.needs_checksums) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("shard '{}': the checksum file is missing, with which the dataset was "
                            "prepared; bring it back, prepare again with --checksums, or go on "
                            "without (--verify-checksums off)",
                            printable(shard.name)),
                {.path = checksum_path(shard.index_path)});
  }
}

}  // namespace energon
