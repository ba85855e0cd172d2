// Reports when a call of next() takes too long, while the call is still running.
//
// A separate thread watches the pipeline. It is armed only during next(). It fires after the
// timeout, and again after each further timeout, until the call returns.

#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "io/concurrency.h"
#include "wrappers/watch/timed_stage.h"

namespace energon {

struct WatchdogReport {
  std::chrono::nanoseconds elapsed{0};  ///< since the call began
  int logical_shard = 0;
  std::int64_t items = 0;        ///< emitted before this call
  std::string stage = {};        ///< running stage, if the stages are timed
  std::int64_t times_fired = 0;  ///< during this call, including this time
};

/// "logical shard 3 has been working on item 17 for 60.0 s, in stage 'encode'"
std::string to_string(const WatchdogReport& report);

/// Runs in the watchdog's thread while the pipeline's thread runs or hangs. If next() returns, it
/// rethrows an exception of the handler, converted to an Error (kUserFunction) if necessary.
using WatchdogHandler = std::function<void(const WatchdogReport& report)>;

/// The action after the handler.
enum class OnTimeout : std::uint8_t {
  kGoOn,
  kThrow,      ///< next() throws Error (kTimeout) if it returns: for the caller's process
  kEndWorker,  ///< the process ends with kWatchdogExitCode: for a worker, never for the caller
};

struct WatchdogOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  /// Timeout of the first call, which opens files and fills buffers. Unset means `timeout`.
  std::optional<std::chrono::milliseconds> initial_timeout = std::nullopt;
  WatchdogHandler handler = nullptr;
  OnTimeout on_timeout = OnTimeout::kGoOn;
  int logical_shard = 0;
  /// If set, provides the name of the running stage.
  std::shared_ptr<const PipelineClock> clock = nullptr;
};

/// Normally the outermost stage of a pipeline.
class Watchdog final : public PassThrough {
 public:
  /// Takes ownership of `inner`. The thread starts with the first next(), so a pipeline may be
  /// created before a fork. Throws Error (kInvalidArgument) for a timeout below 1 ms, or if there
  /// is neither a handler nor an `on_timeout` action.
  Watchdog(std::unique_ptr<Dataset> inner, WatchdogOptions options);
  /// Waits for a running handler to return.
  ~Watchdog() override;

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;

 private:
  using Clock = std::chrono::steady_clock;

  void arm();
  void disarm();
  template <class Call>
  void watch(const Call& call);
  void run();
  void fire(const WatchdogReport& report) ENERGON_EXCLUDES(mutex_);
  void throw_if_fired() ENERGON_REQUIRES(mutex_);

  const WatchdogOptions options_;

  Mutex mutex_;
  Condition changed_;
  bool is_stopping_ ENERGON_GUARDED_BY(mutex_) = false;
  std::optional<Clock::time_point> armed_at_ ENERGON_GUARDED_BY(mutex_);  // during a call
  std::uint64_t calls_ ENERGON_GUARDED_BY(mutex_) = 0;
  std::int64_t items_ ENERGON_GUARDED_BY(mutex_) = 0;
  std::int64_t times_fired_ ENERGON_GUARDED_BY(mutex_) = 0;  // in this call
  std::exception_ptr thrown_ ENERGON_GUARDED_BY(mutex_);     // exception of the handler

  std::thread thread_;  // declared last, because the thread uses the other members
};

}  // namespace energon
