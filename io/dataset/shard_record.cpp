#include "io/dataset/shard_record.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "io/byte_codec.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/index_cache.h"

namespace energon {

namespace {

constexpr std::string_view kWhat = "the record of the shards";
constexpr std::string_view kMagic = "EGNSHRD\n";
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kHasChecksums = 1;  // bits of a shard's flags
constexpr std::uint64_t kIndexInCache = 2;
constexpr std::size_t kLeastShardBytes = 9 * kWordBytes;
constexpr std::int64_t kDigestedHeaders = 64;
constexpr std::size_t kBlockBytes = 512;  // of a tar

// The length (u64), then the bytes.
void write_text(ByteWriter& writer, std::string_view text) {
  writer.u64(text.size());
  writer.raw(text);
}

std::string_view read_text(ByteReader& reader) { return reader.raw(reader.u64()); }

// A reader of what follows the version. Throws Error: kCorruptData if magic bytes or digest are
// wrong, kUnsupported for another version.
ByteReader open_record(std::string_view content) {
  if (content.size() < kMagic.size() + 2 * kWordBytes || !content.starts_with(kMagic)) {
    throw Error(ErrorCode::kCorruptData,
                "not the record of the shards: it is too short or begins with other bytes");
  }
  const std::string_view checked = content.substr(0, content.size() - kWordBytes);
  if (ByteReader(content.substr(checked.size()), kWhat).u64() != xxh3_64(as_bytes(checked))) {
    throw Error(ErrorCode::kCorruptData,
                "the record of the shards is damaged: its own digest does not match");
  }
  ByteReader reader(checked, kWhat);
  reader.raw(kMagic.size());
  if (const std::uint64_t version = reader.u64(); version != kVersion) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("the record of the shards has version {}, this library reads version {}",
                    version, kVersion));
  }
  return reader;
}

std::vector<ShardRecord> read_shards(ByteReader& reader) {
  const std::uint64_t count = reader.u64();
  if (count > reader.left() / kLeastShardBytes) {
    reader.fail("it counts more shards than it holds");
  }
  std::vector<ShardRecord> shards(count);
  for (ShardRecord& shard : shards) {
    const std::uint64_t flags = reader.u64();
    shard.has_checksums = (flags & kHasChecksums) != 0;
    shard.is_index_in_cache = (flags & kIndexInCache) != 0;
    shard.size_bytes = reader.u64();
    shard.mtime_ns = reader.i64();
    shard.sample_count = reader.i64();
    shard.end_offset = reader.u64();
    shard.header_digest = reader.u64();
    shard.index_digest = reader.u64();
    shard.checksum_digest = reader.u64();
    shard.name = read_text(reader);
    if (shard.sample_count < 0 || shard.sample_count > kMostSamplesOfShard) {
      reader.fail("it has a count that no shard can have");
    }
  }
  if (reader.left() != 0) {
    reader.fail("it continues after its last shard");
  }
  return shards;
}

// nullopt if the file does not exist.
std::optional<std::string> content_of(const std::string& path) {
  constexpr std::uint64_t kLimitBytes = std::uint64_t{1} << 30;
  try {
    return read_file(path, kLimitBytes);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo) {
      throw;
    }
    return std::nullopt;
  }
}

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

ShardRecords::ShardRecords(std::string uuid, std::uint64_t set_digest,
                           std::vector<ShardRecord> shards)
    : uuid_(std::move(uuid)), set_digest_(set_digest), shards_(std::move(shards)) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    positions_.emplace(shards_[i].name, i);
  }
}

bool ShardRecords::has_checksums() const {
  return !shards_.empty() && std::all_of(shards_.begin(), shards_.end(),
                                         [](const ShardRecord& s) { return s.has_checksums; });
}

const ShardRecord* ShardRecords::find(const std::string& name) const {
  const auto found = positions_.find(name);
  return found == positions_.end() ? nullptr : &shards_[found->second];
}

std::string ShardRecords::encode() const {
  ByteWriter out;
  out.raw(kMagic);
  out.u64(kVersion);
  out.u64(set_digest_);
  write_text(out, uuid_);
  out.u64(shards_.size());
  for (const ShardRecord& shard : shards_) {
    out.u64((shard.has_checksums ? kHasChecksums : 0) |
            (shard.is_index_in_cache ? kIndexInCache : 0));
    out.u64(shard.size_bytes);
    out.i64(shard.mtime_ns);
    out.i64(shard.sample_count);
    out.u64(shard.end_offset);
    out.u64(shard.header_digest);
    out.u64(shard.index_digest);
    out.u64(shard.checksum_digest);
    write_text(out, shard.name);
  }
  out.u64(xxh3_64(as_bytes(out.bytes())));
  return out.take();
}

ShardRecords ShardRecords::parse(std::string_view content, const std::string& path) {
  try {
    ByteReader reader = open_record(content);
    const std::uint64_t set_digest = reader.u64();
    std::string uuid(read_text(reader));
    std::vector<ShardRecord> shards = read_shards(reader);
    return ShardRecords(std::move(uuid), set_digest, std::move(shards));
  } catch (const Error& error) {
    throw Error(error.code(), error.message() + "; prepare the dataset again", {.path = path});
  }
}

std::uint64_t prepared_set_digest(std::string_view info_text, std::string_view uuid) {
  Xxh3Stream stream;
  for (const std::string_view content : {info_text, uuid}) {
    stream.update_field(as_bytes(content));
  }
  return stream.digest();
}

std::shared_ptr<const ShardRecords> ShardRecords::load_matching(const std::string& meta_folder,
                                                                std::string_view info_text) {
  const std::string path = shard_record_path(meta_folder);
  const std::optional<std::string> content = content_of(path);
  const std::optional<std::string> uuid = content_of(meta_folder + "/index.uuid");
  if (!content || !uuid) {
    return nullptr;
  }
  try {
    ShardRecords records = parse(*content, path);
    if (records.set_digest() != prepared_set_digest(info_text, *uuid)) {
      return nullptr;
    }
    return std::make_shared<const ShardRecords>(std::move(records));
  } catch (const Error&) {
    return nullptr;  // load() reports the damage
  }
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
