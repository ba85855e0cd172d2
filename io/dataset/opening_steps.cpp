#include "io/dataset/opening_steps.h"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "io/concurrency.h"
#include "io/error.h"

namespace energon {
namespace {

// Counts opened shards and reports them to the user, from one thread at a time.
class OpenCounter {
 public:
  OpenCounter(const OpenOptions& options, std::int64_t total)
      : options_(options), progress_{.shards_done = 0, .shards_total = total} {}

  void add_shard() {
    const MutexLock lock(mutex_);
    ++progress_.shards_done;
    if (options_.progress) {
      options_.progress(progress_);
    }
  }

 private:
  const OpenOptions& options_;
  Mutex mutex_;
  OpenProgress progress_ ENERGON_GUARDED_BY(mutex_);
};

}  // namespace

void open_shards(ShardSet& set, const OpenOptions& options,
                 const std::function<void(ShardFile&, std::size_t)>& open,
                 const CountOfBroken& count_of_broken) {
  const auto total = static_cast<std::int64_t>(set.shards.size());
  OpenCounter counter(options, total);
  const auto errors =
      parallel_for(total, thread_count(options.index_threads, total), [&](std::int64_t i) {
        open(set.shards[static_cast<std::size_t>(i)], static_cast<std::size_t>(i));
        counter.add_shard();
      });
  if (options.broken_shards == BrokenShards::kSkip) {
    mark_broken(set, errors, count_of_broken);
  } else {
    rethrow_first(errors);
  }
}

void check_not_empty(ShardSet& set) {
  std::int64_t samples = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, const ShardFile*> files;
  for (const ShardFile& shard : set.shards) {
    if (shard.is_broken) {
      continue;  // has its own warning
    }
    samples += shard.sample_count;
    if (shard.sample_count == 0) {
      set.warnings.push_back(fmt::format("shard '{}' has no samples", printable(shard.name)));
    }
    if (shard.tar_identity == FileIdentity()) {
      continue;  // not known, as it was not looked at
    }
    const auto [first, is_new] =
        files.emplace(std::pair(shard.tar_identity.device, shard.tar_identity.inode), &shard);
    if (!is_new) {
      set.warnings.push_back(
          fmt::format("shards '{}' and '{}' are the same file; its samples come "
                      "twice in every epoch",
                      printable(first->second->name), printable(shard.name)));
    }
  }
  if (samples == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("no samples in {} shards", set.shards.size()),
                {.path = set.dataset_path});
  }
}

}  // namespace energon
