#include "io/dataset/shard_record.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "io/dataset/record_bytes.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/index_cache.h"

namespace energon {
namespace {

constexpr RecordFormat kFormat{
    .magic = "EGNSHRD\n", .version = 1, .what = "the record of the shards"};
constexpr std::uint64_t kHasChecksums = 1;  // bit of the flags
constexpr std::size_t kLeastShardBytes = std::size_t{5} * 8;
constexpr std::int64_t kDigestedHeaders = 64;
constexpr std::size_t kBlockBytes = 512;  // of a tar

[[noreturn]] void fail_replaced(const ShardRecord& record, const std::string& how,
                                const std::string& tar_path) {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("shard '{}' is not the one that was prepared: {}; if it was replaced on "
                          "purpose, run energon prepare --force-overwrite again",
                          printable(record.name), how),
              {.path = tar_path});
}

}  // namespace

std::string shard_record_path(const std::string& meta_folder) {
  return meta_folder + "/shard_record.bin";
}

ShardRecords::ShardRecords(std::string uuid, bool has_checksums, std::vector<ShardRecord> shards)
    : uuid_(std::move(uuid)), has_checksums_(has_checksums), shards_(std::move(shards)) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    positions_.emplace(shards_[i].name, i);
  }
}

const ShardRecord* ShardRecords::find(const std::string& name) const {
  const auto found = positions_.find(name);
  return found == positions_.end() ? nullptr : &shards_[found->second];
}

std::string ShardRecords::encode() const {
  std::string out = begin_record(kFormat);
  append_u64(out, has_checksums_ ? kHasChecksums : 0);
  append_text(out, uuid_);
  append_u64(out, shards_.size());
  for (const ShardRecord& shard : shards_) {
    append_u64(out, shard.size_bytes);
    append_u64(out, static_cast<std::uint64_t>(shard.mtime_ns));
    append_u64(out, shard.header_digest);
    append_u64(out, shard.index_digest);
    append_text(out, shard.name);
  }
  seal_record(out);
  return out;
}

ShardRecords ShardRecords::parse(std::string_view content, const std::string& path) {
  RecordReader reader(content, kFormat, path);
  const std::uint64_t flags = reader.u64();
  std::string uuid(reader.text());
  const std::uint64_t count = reader.u64();
  if (count > reader.left() / kLeastShardBytes) {
    reader.fail("it counts more shards than it holds");
  }
  std::vector<ShardRecord> shards(count);
  for (ShardRecord& shard : shards) {
    shard.size_bytes = reader.u64();
    shard.mtime_ns = static_cast<std::int64_t>(reader.u64());
    shard.header_digest = reader.u64();
    shard.index_digest = reader.u64();
    shard.name = reader.text();
  }
  if (reader.left() != 0) {
    reader.fail("it goes on behind its last shard");
  }
  return ShardRecords(std::move(uuid), (flags & kHasChecksums) != 0, std::move(shards));
}

std::optional<ShardRecords> ShardRecords::load(const std::string& meta_folder,
                                               const DatasetInfo& info) {
  constexpr std::uint64_t kLimitBytes = std::uint64_t{1} << 30;
  constexpr std::uint64_t kUuidLimitBytes = 1024;
  const std::string path = shard_record_path(meta_folder);
  // Energon, which does not know this file, may have prepared the folder again.
  if (!is_written_by_us(info) || !path_exists(path)) {
    return std::nullopt;
  }
  ShardRecords records = parse(read_file(path, kLimitBytes), path);
  const std::string uuid_path = meta_folder + "/index.uuid";
  if (!path_exists(uuid_path) || read_file(uuid_path, kUuidLimitBytes) != records.uuid()) {
    return std::nullopt;
  }
  return records;
}

std::uint64_t header_digest(const FileSource& tar, const TarIndex& index) {
  const std::int64_t samples = index.sample_count();
  const std::int64_t headers = std::min(samples, kDigestedHeaders);
  Xxh3Stream stream;
  std::array<std::byte, kBlockBytes> block{};
  for (std::int64_t i = 0; i < headers; ++i) {
    const std::int64_t sample = headers == 1 ? 0 : i * (samples - 1) / (headers - 1);
    tar.read_at(index.entries()[static_cast<std::size_t>(sample)], block);
    stream.update(block);
  }
  return stream.digest();
}

bool has_recorded_time(const ShardRecord& record, const FileIdentity& shard) {
  // The precisions that file systems and archives keep, finest last.
  constexpr std::array<std::int64_t, 5> kSteps = {1'000'000'000, 1'000'000, 1'000, 100, 1};
  return std::any_of(kSteps.begin(), kSteps.end(), [&](std::int64_t step) {
    return shard.mtime_ns == record.mtime_ns - record.mtime_ns % step;
  });
}

void check_recorded(const ShardRecord& record, const FileIdentity& shard, const FileSource& tar,
                    const std::string& index_path) {
  if (shard.size_bytes != record.size_bytes) {
    fail_replaced(
        record, fmt::format("it has {} bytes, then it had {}", shard.size_bytes, record.size_bytes),
        tar.path());
  }
  if (has_recorded_time(record, shard)) {
    return;
  }
  const TarIndex index = TarIndex::load(index_path, tar.size());
  check_recorded_index(record.index_digest, index, index_path);
  if (header_digest(tar, index) != record.header_digest) {
    fail_replaced(record, "it was written since, and its headers are others", tar.path());
  }
}

void check_recorded_once(const ShardRecord& record, const FileSource& shard, const FileSource& tar,
                         const std::string& index_path,
                         const std::optional<std::string>& cache_dir) {
  // The mark is an empty file, so it need not be written atomically.
  const auto folder = find_folder_in_cache(cache_dir, "compared");
  const std::string mark =
      folder ? fmt::format("{}/{}.{}", *folder, cache_name(shard.path(), shard.identity()),
                           to_hex(record.header_digest))
             : "";
  const bool is_copy =
      shard.size() == record.size_bytes && !has_recorded_time(record, shard.identity());
  if (is_copy && folder && path_exists(mark)) {
    return;
  }
  check_recorded(record, shard.identity(), tar, index_path);
  if (is_copy && folder) {
    try {
      make_cache_folder(*folder);
      std::ofstream(mark, std::ios::app);
    } catch (const Error&) {  // then the next check compares again
    }
  }
}

void check_recorded_index(std::uint64_t recorded_digest, const TarIndex& index,
                          const std::string& index_path) {
  if (index.digest() != recorded_digest) {
    throw Error(ErrorCode::kCorruptData,
                "the index is not the one that was prepared: it is damaged, or another shard's; "
                "run energon prepare --force-overwrite again",
                {.path = index_path});
  }
}

}  // namespace energon
