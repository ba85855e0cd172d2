#include "energon/worker_config.h"

#include <boost/uuid/detail/sha1.hpp>
#include <fmt/format.h>

#include "io/error.h"

namespace energon {

void validate(const WorkerConfig& config) {
  if (config.world_size < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("world_size is {}, it must be at least 1", config.world_size));
  }
  if (config.rank < 0 || config.rank >= config.world_size) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("rank is {}, with world_size {} it must be in [0, {})", config.rank,
                            config.world_size, config.world_size));
  }
  if (config.num_workers < 0 || config.num_workers > 4096) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("num_workers is {}, it must be in [0, 4096]", config.num_workers));
  }
}

std::uint32_t worker_seed(int logical_shard, std::int64_t seed_offset) {
  const std::string text = fmt::format("{},{}", logical_shard, seed_offset);
  boost::uuids::detail::sha1 hash;
  hash.process_bytes(text.data(), text.size());
  boost::uuids::detail::sha1::digest_type digest;  // five words, most significant first
  hash.get_digest(digest);
  return digest[4];
}

std::int64_t share_of(std::int64_t total, int worker, int workers) {
  return total / workers + (worker < total % workers ? 1 : 0);
}

}  // namespace energon
