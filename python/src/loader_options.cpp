#include <chrono>
#include <cstdint>
#include <limits>

#include "python/src/interpreter_hooks.h"
#include "python/src/loader_object.h"
#include "python/src/option_reader.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

WorkerConfig take_worker_config(OptionReader& options) {
  WorkerConfig config;
  options.take("rank", config.rank);
  options.take("world_size", config.world_size);
  options.take("num_workers", config.num_workers);
  options.take("seed_offset", config.seed_offset);
  options.take("logical_shards", config.logical_shards);
  options.take("allow_uneven", config.allow_uneven);
  return config;
}

// Seconds; None and what exceeds the range of the clock: no limit.
std::chrono::milliseconds take_timeout(OptionReader& options, std::chrono::milliseconds standard) {
  std::optional<double> seconds = std::chrono::duration<double>(standard).count();
  options.take("timeout", seconds);
  if (seconds && !(*seconds >= 0)) {  // also not a number
    throw nb::value_error(
        fmt::format("timeout must be seconds, 0 or None for no limit, not {}", *seconds).c_str());
  }
  constexpr double kLongest = 1e12;  // seconds
  if (!seconds || *seconds > kLongest) {
    return std::chrono::milliseconds::max();
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
}

}  // namespace

LoaderOptions read_loader_options(const nb::dict& given) {
  OptionReader options(given);
  LoaderOptions loader;
  loader.worker_config = take_worker_config(options);
  options.take("prefetch_factor", loader.prefetch_factor);
  options.take("n_checkpoints", loader.n_checkpoints);
  options.take("checkpoint_every_batches", loader.checkpoint_every_batches);
  options.take("checkpoint_history", loader.checkpoint_history);
  options.take("checkpoint_history_bytes", loader.checkpoint_history_bytes);
  options.take("arena_limit_bytes", loader.arena_limit_bytes);
  options.take("debug_log_path", loader.debug_log_path);
  options.take("quarantine_file", loader.quarantine_file);
  loader.timeout = take_timeout(options, loader.timeout);
  options.finish();
  loader.wait_check = signal_check();
  if (loader.worker_config.num_workers > 0) {
    loader.fork_hooks = interpreter_fork_hooks();
  }
  return loader;
}

}  // namespace energon::python
