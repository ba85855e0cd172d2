#include "io/dataset/shard_record.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/index_cache.h"

namespace energon {

namespace {

static_assert(std::endian::native == std::endian::little,
              "records are little-endian and are read and written as they are");

constexpr std::string_view kMagic = "EGNSHRD\n";
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kHasChecksums = 1;  // bits of a shard's flags
constexpr std::uint64_t kIndexInCache = 2;
constexpr std::size_t kLeastShardBytes = 9 * kWordBytes;
constexpr std::int64_t kDigestedHeaders = 64;
constexpr std::size_t kBlockBytes = 512;  // of a tar

void append_u64(std::string& out, std::uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), kWordBytes);
}

// The length, then the bytes.
void append_text(std::string& out, std::string_view text) {
  append_u64(out, text.size());
  out += text;
}

std::uint64_t word_at(std::string_view bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), kWordBytes);
  return value;
}

// Reads what follows the version. `content` and `path`, which errors name, must outlive it.
class RecordReader {
 public:
  /// Throws Error: kCorruptData if magic bytes or digest are wrong, kUnsupported for another
  /// version.
  RecordReader(std::string_view content, const std::string& path);

  /// Throw Error (kCorruptData) at the end.
  std::uint64_t u64() { return word_at(take(kWordBytes)); }
  std::string_view text() { return take(u64()); }  ///< in `content`

  /// Bytes before the digest that were not read yet.
  std::size_t left() const { return rest_.size(); }
  [[noreturn]] void fail(std::string_view problem) const;

 private:
  std::string_view take(std::uint64_t size);

  std::string_view rest_;
  const std::string& path_;
};

RecordReader::RecordReader(std::string_view content, const std::string& path)
    : rest_(content), path_(path) {
  if (content.size() < kMagic.size() + 2 * kWordBytes || !content.starts_with(kMagic)) {
    throw Error(ErrorCode::kCorruptData,
                "not the record of the shards: it is too short or begins with other bytes; prepare "
                "the dataset again",
                {.path = path});
  }
  rest_.remove_suffix(kWordBytes);
  if (word_at(content.substr(rest_.size())) != xxh3_64(as_bytes(rest_))) {
    fail("its own digest does not match");
  }
  rest_.remove_prefix(kMagic.size());
  if (const std::uint64_t version = u64(); version != kVersion) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the record of the shards has version {}, this library reads version "
                            "{}; prepare the dataset again",
                            version, kVersion),
                {.path = path});
  }
}

void RecordReader::fail(std::string_view problem) const {
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("the record of the shards is damaged: {}; prepare the dataset again", problem),
      {.path = path_});
}

std::string_view RecordReader::take(std::uint64_t size) {
  if (size > rest_.size()) {
    fail("it ends in the middle of an entry");
  }
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
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
  std::string out(kMagic);
  append_u64(out, kVersion);
  append_u64(out, set_digest_);
  append_text(out, uuid_);
  append_u64(out, shards_.size());
  for (const ShardRecord& shard : shards_) {
    append_u64(out, (shard.has_checksums ? kHasChecksums : 0) |
                        (shard.is_index_in_cache ? kIndexInCache : 0));
    append_u64(out, shard.size_bytes);
    append_u64(out, static_cast<std::uint64_t>(shard.mtime_ns));
    append_u64(out, static_cast<std::uint64_t>(shard.sample_count));
    append_u64(out, shard.end_offset);
    append_u64(out, shard.header_digest);
    append_u64(out, shard.index_digest);
    append_u64(out, shard.checksum_digest);
    append_text(out, shard.name);
  }
  append_u64(out, xxh3_64(as_bytes(out)));
  return out;
}

ShardRecords ShardRecords::parse(std::string_view content, const std::string& path) {
  RecordReader reader(content, path);
  const std::uint64_t set_digest = reader.u64();
  std::string uuid(reader.text());
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
    shard.mtime_ns = static_cast<std::int64_t>(reader.u64());
    shard.sample_count = static_cast<std::int64_t>(reader.u64());
    shard.end_offset = reader.u64();
    shard.header_digest = reader.u64();
    shard.index_digest = reader.u64();
    shard.checksum_digest = reader.u64();
    shard.name = reader.text();
    if (shard.sample_count < 0 || shard.sample_count > kMostSamplesOfShard) {
      reader.fail("it has a count that no shard can have");
    }
  }
  if (reader.left() != 0) {
    reader.fail("it continues after its last shard");
  }
  return ShardRecords(std::move(uuid), set_digest, std::move(shards));
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
