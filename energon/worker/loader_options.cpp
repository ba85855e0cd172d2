#include "energon/worker/loader_options.h"

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

void validate(const LoaderOptions& options) {
  validate(options.worker_config);
  const auto require = [](bool fits, const char* name, std::int64_t value, std::int64_t least) {
    if (!fits) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} is {}, but must be at least {}", name, value, least));
    }
  };
  constexpr int kMaxPrefetchFactor = 1024;
  if (options.prefetch_factor &&
      (*options.prefetch_factor < 1 || *options.prefetch_factor > kMaxPrefetchFactor)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("prefetch_factor is {}, but must be from 1 to {}",
                            *options.prefetch_factor, kMaxPrefetchFactor));
  }
  if (options.prefetch_bytes == 0) {
    throw Error(ErrorCode::kInvalidArgument, "prefetch_bytes is 0, but must be at least 1");
  }
  if (options.checkpoint_every_batches) {
    require(*options.checkpoint_every_batches >= 0, "checkpoint_every_batches",
            *options.checkpoint_every_batches, 0);
  }
  if (options.n_checkpoints) {
    const int least = options.prefetch_factor.value_or(1) + 1;
    require(*options.n_checkpoints >= least, "n_checkpoints", *options.n_checkpoints, least);
  }
  constexpr std::int64_t kMaxHistory = 1'000'000;
  constexpr std::uint64_t kMaxHistoryBytes = std::uint64_t{1} << 40;
  if (options.checkpoint_history < 0 || options.checkpoint_history > kMaxHistory) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("checkpoint_history is {}, but must be from 0 to {} batches",
                            options.checkpoint_history, kMaxHistory));
  }
  if (options.checkpoint_history_bytes > kMaxHistoryBytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("checkpoint_history_bytes is {}, but must be at most {}",
                            options.checkpoint_history_bytes, kMaxHistoryBytes));
  }
  require(options.starvation_limit.count() >= 0, "starvation_limit in milliseconds",
          options.starvation_limit.count(), 0);
  require(options.timeout.count() >= 1, "timeout in milliseconds", options.timeout.count(), 1);
}

}  // namespace energon
