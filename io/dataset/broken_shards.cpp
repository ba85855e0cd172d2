#include "io/dataset/broken_shards.h"

#include <string>

#include <fmt/format.h>

#include "io/concurrency.h"
#include "io/error.h"
#include "io/file.h"

namespace energon {
namespace {

// Whether an error says something about the shard. The others are about the machine or the caller:
// with too many open files or a failing server (kIo), every shard looks broken for a while.
bool is_about_shard(ErrorCode code) {
  return code == ErrorCode::kNotFound || code == ErrorCode::kCorruptData ||
         code == ErrorCode::kUnsupported || code == ErrorCode::kInvalidArgument;
}

void set_broken(ShardSet& set, std::size_t i, const Error& error, const CountOfBroken& count) {
  ShardFile& shard = set.shards[i];
  const std::string name = shard.name;
  shard = {.name = name, .is_broken = true};
  try {
    shard.sample_count = count(shard);
  } catch (const Error& unknown) {
    throw Error(error.code(),
                fmt::format("shard '{}' cannot be read, and cannot be skipped either: how many "
                            "samples it has is not known ({}), so ranks that can read it would "
                            "divide the data in another way. Run: energon prepare; or name the "
                            "shard in a file for --exclude. The shard: {}",
                            printable(name), unknown.message(), error.message()),
                error.context());
  }
  set.broken.push_back({.name = name, .code = error.code(), .cause = error.what()});
  set.warnings.push_back(fmt::format("shard '{}' is broken, its {} samples are left out: {}",
                                     printable(name), shard.sample_count, error.what()));
}

}  // namespace

void mark_broken(ShardSet& set, const std::vector<std::exception_ptr>& errors,
                 const CountOfBroken& count) {
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (!errors[i]) {
      continue;
    }
    try {
      std::rethrow_exception(errors[i]);
    } catch (const Error& error) {
      if (!is_about_shard(error.code())) {
        throw;
      }
      set_broken(set, i, error, count);
    }
  }
  if (set.broken.size() == set.shards.size()) {
    rethrow_first(errors);
  }
}

void exclude_broken(ShardSet& set) {
  for (std::size_t shard = 0; shard < set.shards.size(); ++shard) {
    if (!set.shards[shard].is_broken) {
      continue;
    }
    for (std::int64_t sample = 0; sample < set.shards[shard].sample_count; ++sample) {
      set.excludes.push_back({.shard = static_cast<std::int64_t>(shard), .sample = sample});
    }
  }
}

}  // namespace energon
