#include "wrappers/watch/watchdog.h"

#include <unistd.h>

#include <utility>

#include <fmt/format.h>

#include "energon/stage/dataset.h"
#include "io/error.h"

namespace energon {

namespace {

using Clock = std::chrono::steady_clock;

// The largest timeout means no limit.
Clock::time_point after(Clock::time_point begin, std::chrono::milliseconds duration) {
  const Clock::duration left = Clock::time_point::max() - begin;
  return duration >= std::chrono::floor<std::chrono::milliseconds>(left) ? Clock::time_point::max()
                                                                         : begin + duration;
}

}  // namespace

std::string to_string(const WatchdogReport& report) {
  std::string text =
      fmt::format("logical shard {} has been working on item {} for {:.1f} s", report.logical_shard,
                  report.items, std::chrono::duration<double>(report.elapsed).count());
  return report.stage.empty() ? text
                              : text + fmt::format(", in stage '{}'", printable(report.stage));
}

Watchdog::Watchdog(std::unique_ptr<Dataset> inner, WatchdogOptions options)
    : PassThrough(std::move(inner)), options_(std::move(options)) {
  for (const auto timeout :
       {options_.timeout, options_.initial_timeout.value_or(options_.timeout)}) {
    if (timeout < std::chrono::milliseconds(1)) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("the watchdog's timeout is {} ms, expected at least 1 ms", timeout.count()));
    }
  }
  if (!options_.handler && options_.on_timeout == OnTimeout::kGoOn) {
    throw Error(ErrorCode::kInvalidArgument,
                "the watchdog needs a handler or an on_timeout action");
  }
}

Watchdog::~Watchdog() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

std::optional<Sample> Watchdog::next() {
  std::optional<Sample> sample;
  watch([&] {
    sample = inner().next();
    return sample ? 1 : 0;
  });
  return sample;
}

void Watchdog::next_many(std::int64_t count, std::vector<Sample>& samples) {
  watch([&] {
    const std::size_t before = samples.size();
    inner().next_many(count, samples);
    return static_cast<std::int64_t>(samples.size() - before);
  });
}

template <class Call>
void Watchdog::watch(const Call& call) {
  arm();
  std::int64_t items = 0;
  try {
    items = call();
  } catch (...) {
    disarm();
    throw;
  }
  disarm();
  const MutexLock lock(mutex_);
  items_ += items;
  throw_if_fired();
}

void Watchdog::arm() {
  const MutexLock lock(mutex_);
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { run(); });
  }
  ++calls_;
  times_fired_ = 0;
  armed_at_ = Clock::now();
  changed_.notify_all();
}

void Watchdog::disarm() {
  const MutexLock lock(mutex_);
  armed_at_.reset();
}

void Watchdog::throw_if_fired() {
  if (thrown_) {
    throw to_error(std::exchange(thrown_, nullptr), "the handler of the watchdog");
  }
  if (times_fired_ > 0 && options_.on_timeout == OnTimeout::kThrow) {
    throw Error(ErrorCode::kTimeout,
                fmt::format("item {} of logical shard {} took longer than the watchdog's timeout",
                            items_ - 1, options_.logical_shard));
  }
}

void Watchdog::run() {
  const MutexLock lock(mutex_);
  while (!is_stopping_) {
    if (!armed_at_) {
      changed_.wait(mutex_);
      continue;
    }
    const std::uint64_t call = calls_;
    const auto first =
        call == 1 ? options_.initial_timeout.value_or(options_.timeout) : options_.timeout;
    const Clock::time_point due = after(after(*armed_at_, first), times_fired_ * options_.timeout);
    while (!is_stopping_ && calls_ == call && changed_.wait_until(mutex_, due)) {
    }
    if (is_stopping_ || calls_ != call || !armed_at_) {
      continue;
    }
    const WatchdogReport report{
        .elapsed = Clock::now() - *armed_at_,
        .logical_shard = options_.logical_shard,
        .items = items_,
        .stage = options_.clock ? std::string(options_.clock->running_stage()) : std::string(),
        .times_fired = ++times_fired_};
    const MutexUnlock unlocked(mutex_);
    fire(report);
  }
}

void Watchdog::fire(const WatchdogReport& report) {
  try {
    if (options_.handler) {
      options_.handler(report);
    }
  } catch (...) {
    const MutexLock lock(mutex_);
    thrown_ = std::current_exception();
  }
  if (options_.on_timeout == OnTimeout::kEndWorker) {
    ::_exit(kWatchdogExitCode);
  }
}

}  // namespace energon
