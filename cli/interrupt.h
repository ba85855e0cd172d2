// Handles Ctrl-C and kill: the command is asked to end in an orderly way.
//
// The first SIGINT or SIGTERM only sets a flag, which commands check between pieces of work. If the
// command takes more than three seconds to end (or the grace period that it asked for), or a second
// signal arrives, the program ends at once. Work with a StopOnInterrupt keeps its grace period even
// if more signals arrive, so that it can clean up. After a sudden end, unfinished files are unnamed
// or temporary: files are renamed to their places only when complete.

#pragma once

#include <atomic>
#include <chrono>
#include <stop_token>
#include <thread>

namespace energon::cli {

/// Installs the signal handlers. Call once per process, in main().
void catch_interrupts();

/// For a command that saves something when a signal arrives: sets how long its last piece of work
/// may take, in whole seconds.
void grant_interrupt_grace(std::chrono::seconds grace);

/// The number of the signal that arrived; 0 if none did.
int interrupt_signal();
/// Throws Error (kCancelled) if a signal arrived.
void check_interrupt();

/// Requests its stop token when a signal arrives; further signals are ignored while an object
/// exists. Starts a thread, so it is not for commands that fork.
class StopOnInterrupt {
 public:
  StopOnInterrupt();
  ~StopOnInterrupt();
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  void watch();

  std::stop_source source_;
  std::atomic<bool> is_over_ = false;
  std::thread watcher_;
};

}  // namespace energon::cli
