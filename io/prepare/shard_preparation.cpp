#include "io/prepare/shard_preparation.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/concurrency.h"
#include "io/dataset/shard_record.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/checksum_file.h"
#include "io/index/index_cache.h"
#include "io/index/sample_index.h"
#include "io/index/tar_index.h"
#include "io/tar/compression.h"

namespace energon {

// --- One shard ---

namespace {

// The start of each sample, and the end of the last one.
std::vector<std::uint64_t> index_entries(const ShardScan& scan) {
  std::vector<std::uint64_t> entries;
  entries.reserve(scan.samples.size() + 1);
  for (const ScannedSample& sample : scan.samples) {
    entries.push_back(sample.offset);
  }
  entries.push_back(scan.end_offset);
  return entries;
}

// With --force-overwrite, lost samples are only a warning.
void check_not_shrunk(const std::optional<std::string>& proof, const std::string& old_index,
                      Existing existing, std::vector<std::string>* warnings) {
  if (!proof) {
    return;
  }
  if (existing != Existing::kOverwrite) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("{}; if the tar was replaced on purpose, remove '{}' or prepare with "
                            "--force-overwrite",
                            *proof, printable(old_index)));
  }
  if (warnings != nullptr) {
    warnings->push_back(*proof);
  }
}

// Scans the shard and compares the result with an existing index.
ScannedShard scan_and_compare(const std::string& path, const FileSource& tar,
                              const PrepareOptions& options, std::vector<std::uint64_t>& entries) {
  const std::string old_index = tar_index_path(path);
  check_not_shrunk(proof_of_shrinking(old_index, tar.size()), old_index, options.existing, nullptr);
  ShardScan scan = read_copy(path, tar.path(),
                             [&] { return scan_shard(tar, {.strictness = options.strictness}); });
  entries = index_entries(scan);
  check_not_shrunk(proof_of_shrinking(old_index, tar.size(), entries), old_index, options.existing,
                   &scan.warnings);
  return {.scan = std::move(scan), .tar_size = tar.size()};
}

}  // namespace

ScannedShard prepare_shard(const std::string& path, const std::string& index_path,
                           const std::string& checksums_path, unsigned file_mode,
                           const PrepareOptions& options) {
  // Before the scan, so that a shard that changes meanwhile is detected.
  const FileIdentity identity = FileSource(path).identity();
  const FileSource tar(ensure_expanded(path, options.cache_dir));
  std::vector<std::uint64_t> entries;
  ScannedShard shard = scan_and_compare(path, tar, options, entries);
  write_tar_index(index_path, entries, file_mode);
  mark_index_fresh(index_path, identity);
  const TarIndex index = TarIndex::from_entries(std::move(entries), tar.size(), path);
  shard.record = {.size_bytes = identity.size_bytes,
                  .mtime_ns = identity.mtime_ns,
                  .sample_count = index.sample_count(),
                  .end_offset = shard.scan.end_offset,
                  .header_digest = header_digest(tar, index),
                  .index_digest = index.digest()};
  if (options.checksums == Checksums::kWrite) {
    const std::string checksums = encode_checksums(tar.size(), compute_checksums(tar, index));
    write_file_atomically(checksums_path, as_bytes(checksums), file_mode);
    shard.record.has_checksums = true;
    shard.record.checksum_digest = xxh3_64(as_bytes(checksums));
  }
  if (FileSource(path).identity() != identity) {
    throw Error(ErrorCode::kCorruptData, "the shard was changed while it was read");
  }
  return shard;
}

// --- Shards of an earlier prepare ---

namespace {

constexpr std::uint64_t kNoSizeLimit = UINT64_MAX;

// The first reason why the shard, whose record and count are known, cannot be reused. If empty, the
// rest of the shard is filled in.
std::string changed_in(const std::string& shard_path, bool needs_checksums, ShardRecord& record) {
  const FileSource file(shard_path);
  if (file.size() != record.size_bytes || file.identity().mtime_ns != record.mtime_ns) {
    return "has a different size or modification time";
  }
  const std::string index_path = tar_index_path(shard_path);
  // Offsets of a compressed shard are those of its expanded copy, which is not needed here.
  const bool is_compressed = compression_of_name(shard_path) != Compression::kNone;
  const TarIndex index = TarIndex::load(index_path, is_compressed ? kNoSizeLimit : file.size());
  if (index.digest() != record.index_digest || index.sample_count() != record.sample_count) {
    return "has a different index";
  }
  if (!is_compressed && header_digest(file, index) != record.header_digest) {
    return "has different headers";
  }
  if (needs_checksums) {
    const std::string checksums = checksum_path(index_path);
    if (!path_exists(checksums)) {
      return "has no checksum file";
    }
    record.has_checksums = true;
    record.checksum_digest = xxh3_64(as_bytes(read_file(checksums, kNoSizeLimit)));
  }
  record.end_offset = index.entries().back();
  return "";
}

// Empty if all shards are unchanged.
std::string find_change(const std::string& dataset_path, PreviousPrepare& previous,
                        bool needs_checksums, int threads) {
  std::vector<std::string> changes(previous.shards.size());
  const auto errors = parallel_for(previous.count(), threads, [&](std::int64_t job) {
    const auto i = static_cast<std::size_t>(job);
    changes[i] = changed_in(dataset_path + "/" + previous.shards[i].name, needs_checksums,
                            previous.records[i]);
  });
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (errors[i] != nullptr) {
      changes[i] = "cannot be compared with its record";
    }
    if (!changes[i].empty()) {
      return fmt::format("shard '{}' {}", printable(previous.shards[i].name), changes[i]);
    }
  }
  return "";
}

// Throws Error for files that cannot be read.
PreviousChoice look(const std::string& dataset_path, std::span<const std::string> names,
                    bool needs_checksums, int threads) {
  const std::string meta = dataset_path + "/.nv-meta";
  const std::optional<DatasetInfo> info = read_dataset_info(meta);
  if (!info) {
    return {};
  }
  const auto none = [](std::string reason) {
    return PreviousChoice{.why_none = std::move(reason)};
  };
  const std::optional<ShardRecords> records = ShardRecords::load(meta, *info);
  if (!records) {
    return none("the previous prepare left no record of its shards");
  }
  PreviousPrepare previous;
  for (const ShardCount& shard : info->shards) {
    const auto position = static_cast<std::size_t>(previous.count());
    const ShardRecord* const record = records->find(shard.name);
    if (position >= names.size() || names[position] != shard.name || record == nullptr) {
      return none(
          fmt::format("shard '{}' is gone, or is preceded by a new shard", printable(shard.name)));
    }
    previous.shards.push_back(shard);
    previous.records.push_back(*record);
    ShardRecord& taken = previous.records.back();
    taken.sample_count = shard.sample_count;
    taken.has_checksums = false;  // set again where they are needed and there
    taken.checksum_digest = 0;
  }
  if (needs_checksums && !records->has_checksums()) {
    return none("the previous prepare wrote no checksums");
  }
  if (std::string change = find_change(dataset_path, previous, needs_checksums, threads);
      !change.empty()) {
    return none(std::move(change));
  }
  previous.index_path = meta + "/index.sqlite";
  std::int64_t samples = 0;
  for (const ShardCount& shard : previous.shards) {
    samples += shard.sample_count;
  }
  if (SampleIndex(previous.index_path).sample_count() != samples) {
    return none("index.sqlite and .info.json have different numbers of samples");
  }
  // Where locks do not work, another prepare may have replaced files meanwhile.
  if (read_file(meta + "/index.uuid") != records->uuid()) {
    return none("another process prepared the dataset meanwhile");
  }
  return {.prepare = std::move(previous)};
}

}  // namespace

PreviousChoice find_previous_prepare(const std::string& dataset_path,
                                     std::span<const std::string> names, bool needs_checksums,
                                     int threads) {
  try {
    return look(dataset_path, names, needs_checksums, threads);
  } catch (const Error& error) {
    return {.why_none = fmt::format("the previous prepare cannot be used: {}", error.what())};
  }
}

ScannedShard read_prepared_shard(const PreviousPrepare& previous, std::int64_t tar_file_id) {
  const auto shard = static_cast<std::size_t>(tar_file_id);
  const SampleIndex index(previous.index_path);  // each thread has its own
  const auto fail = [&](std::string_view what) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("index database: {} of shard '{}'; prepare the dataset again with "
                            "--force-overwrite",
                            what, printable(previous.shards[shard].name)),
                {.path = previous.index_path});
  };
  ScannedShard found{.tar_size = previous.records[shard].end_offset,
                     .record = previous.records[shard]};
  std::vector<ScannedSample>& samples = found.scan.samples;
  index.for_each_sample_of(tar_file_id, [&](std::string_view key, const SampleLocation& at) {
    if (at.sample_index != std::ssize(samples)) {
      fail("the samples are not numbered in order");
    }
    samples.push_back({.key = std::string(key), .offset = at.bytes.offset, .size = at.bytes.size});
    return true;
  });
  if (std::ssize(samples) != previous.shards[shard].sample_count) {
    fail(fmt::format("{} samples instead of {}", samples.size(),
                     previous.shards[shard].sample_count));
  }
  std::int64_t parts = 0;
  index.for_each_part_of(tar_file_id, [&](std::string_view, const PartLocation& part) {
    if (part.sample_index >= std::ssize(samples)) {
      fail("a part without a sample");
    }
    samples[static_cast<std::size_t>(part.sample_index)].parts.push_back(
        {.name = part.part, .content_offset = part.content.offset, .size = part.content.size});
    ++parts;
    return true;
  });
  if (parts != index.count_part_rows(tar_file_id)) {
    fail("a part without a sample");
  }
  return found;
}

}  // namespace energon
