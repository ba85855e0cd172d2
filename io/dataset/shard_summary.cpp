#include "io/dataset/shard_summary.h"

#include <optional>
#include <utility>

#include "io/dataset/record_bytes.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"

namespace energon {
namespace {

constexpr RecordFormat kSummaryFormat{
    .magic = "EGNSUMM\n", .version = 1, .what = "the summary of the shards"};
constexpr std::uint64_t kChecksummed = 1;  // bits of a shard's flags
constexpr std::uint64_t kIndexInCache = 2;
constexpr std::size_t kLeastEntryBytes = std::size_t{9} * 8;

// Nothing if there is no such file.
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

}  // namespace

std::string ShardSummary::encode() const {
  std::string out = begin_record(kSummaryFormat);
  append_u64(out, set_digest);
  append_u64(out, shards.size());
  for (const SummarizedShard& shard : shards) {
    append_u64(out, (shard.has_checksums ? kChecksummed : 0) |
                        (shard.is_index_in_cache ? kIndexInCache : 0));
    append_u64(out, shard.record.size_bytes);
    append_u64(out, static_cast<std::uint64_t>(shard.record.mtime_ns));
    append_u64(out, static_cast<std::uint64_t>(shard.sample_count));
    append_u64(out, shard.end_offset);
    append_u64(out, shard.record.header_digest);
    append_u64(out, shard.record.index_digest);
    append_u64(out, shard.checksum_digest);
    append_text(out, shard.record.name);
  }
  seal_record(out);
  return out;
}

ShardSummary ShardSummary::parse(std::string_view content, const std::string& path) {
  RecordReader reader(content, kSummaryFormat, path);
  ShardSummary summary{.set_digest = reader.u64()};
  const std::uint64_t count = reader.u64();
  if (count > reader.left() / kLeastEntryBytes) {
    reader.fail("it counts more shards than it holds");
  }
  summary.shards.resize(count);
  for (SummarizedShard& shard : summary.shards) {
    const std::uint64_t flags = reader.u64();
    shard.has_checksums = (flags & kChecksummed) != 0;
    shard.is_index_in_cache = (flags & kIndexInCache) != 0;
    shard.record.size_bytes = reader.u64();
    shard.record.mtime_ns = static_cast<std::int64_t>(reader.u64());
    shard.sample_count = static_cast<std::int64_t>(reader.u64());
    shard.end_offset = reader.u64();
    shard.record.header_digest = reader.u64();
    shard.record.index_digest = reader.u64();
    shard.checksum_digest = reader.u64();
    shard.record.name = reader.text();
    if (shard.sample_count < 0 || shard.sample_count > kMostSamplesOfShard) {
      reader.fail("it has a count that no shard can have");
    }
  }
  if (reader.left() != 0) {
    reader.fail("it goes on behind its last shard");
  }
  return summary;
}

std::uint64_t prepared_set_digest(std::string_view info_text, std::string_view uuid,
                                  std::string_view shard_record) {
  Xxh3Stream stream;
  for (const std::string_view content : {info_text, uuid, shard_record}) {
    stream.update_field(as_bytes(content));
  }
  return stream.digest();
}

std::string shard_summary_path(const std::string& meta_folder) {
  return meta_folder + "/shard_summary.bin";
}

std::shared_ptr<const ShardSummary> load_shard_summary(const std::string& meta_folder,
                                                       std::string_view info_text) {
  const std::string path = shard_summary_path(meta_folder);
  const std::optional<std::string> content = content_of(path);
  if (!content) {
    return nullptr;
  }
  const std::optional<std::string> uuid = content_of(meta_folder + "/index.uuid");
  const std::optional<std::string> record = content_of(shard_record_path(meta_folder));
  if (!uuid || !record) {
    return nullptr;
  }
  try {
    ShardSummary summary = ShardSummary::parse(*content, path);
    if (summary.set_digest != prepared_set_digest(info_text, *uuid, *record)) {
      return nullptr;
    }
    return std::make_shared<const ShardSummary>(std::move(summary));
  } catch (const Error&) {
    return nullptr;  // lint reports the damage
  }
}

}  // namespace energon
