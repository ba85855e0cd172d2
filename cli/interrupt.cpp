#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "io/error.h"

namespace energon::cli {
namespace {

constexpr std::chrono::milliseconds kWatchInterval{20};

std::atomic<int> g_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // set in a signal handler

// A command that does not check the flag within this time is ended.
std::atomic<unsigned> g_grace_seconds = 3;
static_assert(std::atomic<unsigned>::is_always_lock_free);  // read in a signal handler

// Number of StopOnInterrupt objects, whose work ends by itself within the grace period and cleans
// up.
std::atomic<int> g_stopping = 0;

void remember(int signal) {
  if (g_signal.load(std::memory_order_relaxed) == 0) {
    g_signal.store(signal, std::memory_order_relaxed);
    ::alarm(g_grace_seconds.load(std::memory_order_relaxed));
  } else if (g_stopping.load(std::memory_order_relaxed) == 0) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // delivered when this handler returns
  }
}

void end_late(int) { ::_exit(128 + g_signal.load(std::memory_order_relaxed)); }

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  struct sigaction hang_up = {};
  if (::sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) {
    ::sigaction(SIGHUP, &action, nullptr);  // not under nohup
  }
  action.sa_handler = end_late;
  ::sigaction(SIGALRM, &action, nullptr);
  // Writing to a closed pipe, or beyond the file size limit, then fails with an error code.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

void grant_interrupt_grace(std::chrono::seconds grace) {
  g_grace_seconds.store(static_cast<unsigned>(grace.count()), std::memory_order_relaxed);
}

int interrupt_signal() { return g_signal.load(std::memory_order_relaxed); }

void check_interrupt() {
  if (interrupt_signal() != 0) {
    throw Error(ErrorCode::kCancelled, "interrupted");
  }
}

StopOnInterrupt::StopOnInterrupt() : watcher_([this] { watch(); }) {
  g_stopping.fetch_add(1, std::memory_order_relaxed);
}

StopOnInterrupt::~StopOnInterrupt() {
  g_stopping.fetch_sub(1, std::memory_order_relaxed);
  is_over_ = true;
  watcher_.join();
}

// A signal handler must not request a stop, so a thread polls the flag.
void StopOnInterrupt::watch() {
  while (!is_over_) {
    if (interrupt_signal() != 0) {
      source_.request_stop();
      return;
    }
    std::this_thread::sleep_for(kWatchInterval);
  }
}

}  // namespace energon::cli
