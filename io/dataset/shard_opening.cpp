#include "io/dataset/shard_opening.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/checksum_file.h"
#include "io/index/index_cache.h"
#include "io/index/tar_index.h"
#include "io/shared_folder.h"
#include "io/tar/compression.h"
#include "io/tar/shard_scan.h"

namespace energon {

// --- Checking a shard ---

namespace {

// A warning about the end of a tar that already has an index. Throws Error instead if the options
// are strict.
std::optional<std::string> odd_end(const FileSource& tar, std::uint64_t end_offset,
                                   ScanStrictness strictness) {
  // Only strict checks read past the first zero block.
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
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("the shard '{}' is missing, but listed in .info.json and the split file",
                    printable(name)),
        {.path = path});
  }
}

}  // namespace

void fail_unprepared(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the dataset is not completely prepared: {}; run: energon prepare {}",
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
    // The context has the path of the tar or the index, and either may be at fault.
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
  // Only an index next to the data has checksums, never an index in the cache.
  const std::string checksums = checksum_path(shard.index_path);
  shard.checksum_path = path_exists(checksums) ? checksums : "";
  return warnings;
}

std::optional<std::string> open_shard(ShardFile& shard, std::int64_t count_in_info,
                                      const std::string& folder, const ShardRecord* record,
                                      const OpenOptions& options) {
  const std::string original = folder + "/" + shard.name;
  // Opened once, so that the checked file is the recorded one, even if it is replaced meanwhile.
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
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("shard '{}' has {} samples according to .info.json, but {} according to its "
                    "index; prepare the dataset again (energon prepare --force-overwrite)",
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
                fmt::format("shard '{}': the dataset was prepared with checksums, but the checksum "
                            "file is missing; restore it, prepare again with --checksums, or "
                            "continue without (--verify-checksums off)",
                            printable(shard.name)),
                {.path = checksum_path(shard.index_path)});
  }
}

// --- Prepared shards, by their record ---

namespace {

// The options that a check at the first read needs.
OpenOptions options_of_checks(const OpenOptions& options) {
  return {.needs_checksums = options.needs_checksums, .cache_dir = options.cache_dir};
}

}  // namespace

std::shared_ptr<const RecordedShards> RecordedShards::find(const std::string& folder,
                                                           std::string_view info_text,
                                                           const OpenOptions& options) {
  if (!may_check_later(options)) {
    return nullptr;
  }
  auto records = ShardRecords::load_matching(folder + "/.nv-meta", info_text);
  // The path of an expanded copy is known only after expansion. Ignoring checksums that exist but
  // are not required would change the digests of a state.
  const auto needs_look = [&](const ShardRecord& shard) {
    return compression_of_name(shard.name) != Compression::kNone ||
           (shard.has_checksums && !options.needs_checksums);
  };
  if (!records || std::any_of(records->shards().begin(), records->shards().end(), needs_look)) {
    return nullptr;
  }
  return std::make_shared<const RecordedShards>(folder, options, std::move(records));
}

RecordedShards::RecordedShards(std::string folder, const OpenOptions& options,
                               std::shared_ptr<const ShardRecords> records)
    : folder_(std::move(folder)),
      options_(options_of_checks(options)),
      records_(std::move(records)) {}

DatasetInfo RecordedShards::info() const {
  DatasetInfo info;
  info.shards.reserve(records_->shards().size());
  for (const ShardRecord& shard : records_->shards()) {
    info.shards.push_back({shard.name, shard.sample_count});
  }
  return info;
}

void RecordedShards::open(ShardSet& set, const OpenOptions& options) const {
  ShardWarnings warnings(set);
  std::vector<bool> seen(records_->shards().size());
  for (std::size_t i = 0; i < set.shards.size(); ++i) {
    const ShardRecord& shard = *records_->find(set.shards[i].name);
    const auto position = static_cast<std::size_t>(&shard - records_->shards().data());
    set.shards[i] = describe(shard);
    if (auto odd = missing_end(shard.end_offset, shard.size_bytes)) {
      warnings.of(i).push_back(std::move(*odd));
    }
    if (seen[position]) {
      warnings.of(i).push_back("it is listed twice; its samples appear twice in every epoch");
    }
    seen[position] = true;
  }
  warnings.append_to(set.warnings);
  set.check = [self = shared_from_this()](const ShardFile& shard) { return self->check(shard); };
  if (options.progress) {
    const auto total = static_cast<std::int64_t>(set.shards.size());
    options.progress({.shards_done = total, .shards_total = total});
  }
}

ShardFile RecordedShards::describe(const ShardRecord& shard) const {
  ShardFile file{.name = shard.name,
                 .tar_path = folder_ + "/" + shard.name,
                 .index_digest = shard.index_digest,
                 .sample_count = shard.sample_count,
                 .tar_size = shard.size_bytes,
                 .is_checked = false};
  file.index_path = tar_index_path(file.tar_path);
  if (shard.has_checksums) {
    file.checksum_path = checksum_path(file.index_path);
    file.checksum_digest = shard.checksum_digest;
  }
  return file;
}

ShardFile RecordedShards::check(const ShardFile& shard) const {
  const ShardRecord& known = *records_->find(shard.name);
  ShardFile file{.name = shard.name};
  open_shard(file, known.sample_count, folder_, &known, options_);
  check_has_checksums(file, known.has_checksums, options_);
  file.checksum_digest = shard.checksum_digest;
  return file;
}

// --- Plain tars, by the summary of an earlier opening ---

namespace {

constexpr std::size_t kLeastTars = 16;  // fewer are opened directly
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 36;

bool is_record(std::string_view name) { return name.ends_with(".bin"); }

std::uint64_t digest_of_folder(const std::string& folder) { return xxh3_64(as_bytes(folder)); }

// Empty if there is none, or none that is usable.
ShardRecords read_records(const std::string& path, const std::string& folder) {
  try {
    ShardRecords records = ShardRecords::parse(read_file(path, kMostBytes), path);
    if (records.set_digest() == digest_of_folder(folder)) {
      return records;
    }
  } catch (const Error&) {  // then all tars are opened
  }
  return {};
}

}  // namespace

std::shared_ptr<const PlainRecords> PlainRecords::find(const ShardList& list,
                                                       const OpenOptions& options) {
  const auto cache = find_folder_in_cache(options.cache_dir, "record");
  if (!may_check_later(options) || list.names.size() < kLeastTars || !cache) {
    return nullptr;
  }
  const std::string name = std::filesystem::path(list.folder).filename().string();
  constexpr std::size_t kMostNameBytes = 100;
  return std::make_shared<const PlainRecords>(
      list.folder, options,
      fmt::format("{}/{}-{}.bin", *cache, name.substr(0, kMostNameBytes),
                  to_hex(digest_of_folder(list.folder))));
}

PlainRecords::PlainRecords(std::string folder, const OpenOptions& options, std::string path)
    : folder_(std::move(folder)),
      options_{.cache_dir = options.cache_dir},
      path_(std::move(path)),
      records_(read_records(path_, folder_)) {}

std::string PlainRecords::index_path(const ShardFile& shard, bool is_in_cache) const {
  return is_in_cache ? fmt::format("{}/{}.tar.idx", folder_in_cache(options_.cache_dir, "index"),
                                   cache_name(shard.tar_path, shard.tar_identity))
                     : tar_index_path(shard.tar_path);
}

bool PlainRecords::describe(ShardFile& shard, std::vector<std::string>& warnings) const {
  const ShardRecord* const found = records_.find(shard.name);
  if (found == nullptr) {
    return false;
  }
  const ShardRecord& known = *found;
  std::string path = folder_ + "/" + shard.name;
  const std::optional<FileIdentity> identity = identity_of(path);
  if (!identity || identity->size_bytes != known.size_bytes ||
      identity->mtime_ns != known.mtime_ns) {
    return false;
  }
  shard.tar_path = std::move(path);
  shard.tar_identity = *identity;
  shard.tar_size = identity->size_bytes;
  shard.index_path = index_path(shard, known.is_index_in_cache);
  shard.noted_index_digest = known.index_digest;
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

void PlainRecords::digest(ShardFile& shard) {
  if (compression_of_name(shard.name) != Compression::kNone) {
    return;
  }
  shard.noted_index_digest = TarIndex::load(shard.index_path, shard.tar_size).digest();
  if (!shard.checksum_path.empty()) {
    shard.checksum_digest = xxh3_64(as_bytes(read_file(shard.checksum_path, kMostBytes)));
  }
}

CheckShard PlainRecords::check() const {
  return [self = shared_from_this()](const ShardFile& shard) { return self->check(shard); };
}

ShardFile PlainRecords::check(const ShardFile& shard) const {
  if (identity_of(shard.tar_path) != shard.tar_identity) {
    return shard;  // the reader will open it and report the change
  }
  ShardFile file{.name = shard.name};
  open_plain_shard(file, folder_, options_);
  digest(file);
  if (file.sample_count != shard.sample_count ||
      file.noted_index_digest != shard.noted_index_digest) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("the index of shard '{}' changed since the folder was last opened: it has {} "
                    "samples, and had {} before; remove '{}' and start again",
                    printable(shard.name), file.sample_count, shard.sample_count, printable(path_)),
        {.path = file.index_path});
  }
  return file;
}

void PlainRecords::note(const ShardSet& set) const {
  const auto is_looked_at = [](const ShardFile& shard) {
    return shard.is_checked && shard.noted_index_digest;
  };
  if (std::none_of(set.shards.begin(), set.shards.end(), is_looked_at)) {
    return;
  }
  try {
    std::vector<ShardRecord> records;
    for (const ShardFile& shard : set.shards) {
      if (!shard.noted_index_digest) {
        continue;
      }
      records.push_back(
          {.name = shard.name,
           .size_bytes = shard.tar_identity.size_bytes,
           .mtime_ns = shard.tar_identity.mtime_ns,
           .sample_count = shard.sample_count,
           .end_offset = shard.is_checked
                             ? summarize_tar_index(shard.index_path, shard.tar_size).end_offset
                             : records_.find(shard.name)->end_offset,
           .index_digest = *shard.noted_index_digest,
           .has_checksums = shard.checksum_digest.has_value(),
           .checksum_digest = shard.checksum_digest.value_or(0),
           .is_index_in_cache = shard.index_path != tar_index_path(shard.tar_path)});
    }
    const std::string content =
        ShardRecords("", digest_of_folder(folder_), std::move(records)).encode();
    const std::string folder = folder_of(path_);
    make_cache_folder(folder);
    remove_abandoned_once(folder, is_record);
    write_file_atomically(path_, as_bytes(content), 0600);
  } catch (const Error&) {  // the next opening opens the tars again
  }
}

}  // namespace energon
