#include "io/prepare/shard_preparation.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/dataset/shard_record.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/checksum_file.h"
#include "io/index/index_cache.h"
#include "io/index/tar_index.h"

namespace energon {
namespace {

// Where each sample begins, and where the last one ends.
std::vector<std::uint64_t> index_entries(const ShardScan& scan) {
  std::vector<std::uint64_t> entries;
  entries.reserve(scan.samples.size() + 1);
  for (const ScannedSample& sample : scan.samples) {
    entries.push_back(sample.offset);
  }
  entries.push_back(scan.end_offset);
  return entries;
}

// With --force-overwrite, the lost samples are a warning only.
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

// The scan, compared with the index that an earlier one left.
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
  // Before the scan: a shard that changes meanwhile must not look like the one that was scanned.
  const FileIdentity identity = FileSource(path).identity();
  const FileSource tar(ensure_expanded(path, options.cache_dir));
  std::vector<std::uint64_t> entries;
  ScannedShard shard = scan_and_compare(path, tar, options, entries);
  write_tar_index(index_path, entries, file_mode);
  mark_index_fresh(index_path, identity);
  const TarIndex index = TarIndex::from_entries(std::move(entries), tar.size(), path);
  shard.summary = {.record = {.size_bytes = identity.size_bytes,
                              .mtime_ns = identity.mtime_ns,
                              .header_digest = header_digest(tar, index),
                              .index_digest = index.digest()},
                   .sample_count = index.sample_count(),
                   .end_offset = shard.scan.end_offset};
  if (options.checksums == Checksums::kWrite) {
    const std::string checksums = encode_checksums(tar.size(), compute_checksums(tar, index));
    write_file_atomically(checksums_path, as_bytes(checksums), file_mode);
    shard.summary.has_checksums = true;
    shard.summary.checksum_digest = xxh3_64(as_bytes(checksums));
  }
  if (FileSource(path).identity() != identity) {
    throw Error(ErrorCode::kCorruptData, "the shard was changed while it was read");
  }
  return shard;
}

}  // namespace energon
