#include "energon/read/shard_fingerprint.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "io/bytes.h"
#include "io/file_source.h"
#include "io/hash.h"
#include "io/index/parallel_for.h"

namespace energon {
namespace {

constexpr std::uint64_t kLongestFile = std::uint64_t{1} << 36;

// XXH3 of the digests of one file of each shard. A broken shard counts as none: its line in the
// configuration says so.
std::string digest_of_files(std::span<const ShardFile> shards, const std::string ShardFile::*path) {
  std::vector<std::uint64_t> digests(shards.size());
  const auto total = static_cast<std::int64_t>(shards.size());
  const auto errors = parallel_for(total, thread_count(std::nullopt, total), [&](std::int64_t i) {
    const auto shard = static_cast<std::size_t>(i);
    if (shards[shard].is_broken) {
      return;
    }
    const auto& known =
        path == &ShardFile::index_path ? shards[shard].index_digest : shards[shard].checksum_digest;
    if (known) {
      digests[shard] = *known;  // as prepare recorded it
      return;
    }
    digests[shard] = xxh3_64(as_bytes(read_file(shards[shard].*path, kLongestFile)));
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
