// Errors of expanded copies of shards, which lie in the cache folder and not where the shard is.

#pragma once

#include <string>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

/// Calls `read`, which reads `tar_path`: the shard `shard_path` itself or its expanded copy
/// (io/formats/index_cache.h). An Error (kCorruptData) of a copy then says of what it is one, and
/// what to do.
template <class Read>
auto read_copy(const std::string& shard_path, const std::string& tar_path, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (tar_path == shard_path || error.code() != ErrorCode::kCorruptData) {
      throw;
    }
    throw Error(error.code(),
                fmt::format("{}; read from '{}', the expanded copy of '{}': if the shard is whole, "
                            "remove the copy, and it is made again",
                            error.message(), printable(tar_path), printable(shard_path)),
                error.context());
  }
}

}  // namespace energon
