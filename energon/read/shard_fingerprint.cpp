#include "energon/read/shard_fingerprint.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "io/bytes.h"
#include "io/concurrency.h"
#include "io/file.h"
#include "io/hash.h"

namespace energon {
namespace {

constexpr std::uint64_t kLongestFile = std::uint64_t{1} << 36;

// Of the index or the checksum file, as prepare recorded it or a summary noted it.
std::optional<std::uint64_t> known_digest(const ShardFile& shard,
                                          const std::string ShardFile::*path) {
  if (path != &ShardFile::index_path) {
    return shard.checksum_digest;
  }
  return shard.index_digest ? shard.index_digest : shard.noted_index_digest;
}

// XXH3 of the digests of one file of each shard. A broken shard counts as none: its line in the
// configuration says so.
std::string digest_of_files(std::span<const ShardFile> shards, const std::string ShardFile::*path) {
  std::vector<std::uint64_t> digests(shards.size());
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (const auto known = known_digest(shards[i], path)) {
      digests[i] = *known;
    } else if (!shards[i].is_broken) {
      unknown.push_back(i);
    }
  }
  const auto total = static_cast<std::int64_t>(unknown.size());
  const auto errors = parallel_for(total, thread_count(std::nullopt, total), [&](std::int64_t job) {
    const std::size_t i = unknown[static_cast<std::size_t>(job)];
    digests[i] = xxh3_64(as_bytes(read_file(shards[i].*path, kLongestFile)));
  });
  rethrow_first(errors);
  return to_hex(xxh3_64(std::as_bytes(std::span(digests))));
}

}  // namespace

const ShardFingerprint::Members& ShardFingerprint::of(std::span<const ShardFile> shards) const {
  std::call_once(once_, [&] {
    Members members = {{"indexes", digest_of_files(shards, &ShardFile::index_path)}};
    const bool have_checksums = std::none_of(shards.begin(), shards.end(), [](const auto& shard) {
      return !shard.is_broken && shard.checksum_path.empty();
    });
    if (have_checksums) {
      members.emplace_back("checksums", digest_of_files(shards, &ShardFile::checksum_path));
    }
    members_ = std::move(members);
  });
  return members_;
}

}  // namespace energon
