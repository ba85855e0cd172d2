// Ctrl-C and kill: ask the command to end in an orderly way.
//
// The first SIGINT or SIGTERM only sets a flag that commands look at between two pieces of work; if
// that takes more than three seconds (or a grace that the command asked for), or a second signal
// comes, the program ends at once. Work with a StopOnInterrupt has its grace also when more signals
// come, so that it can remove what it began. What is half done at a sudden end is nameless or
// temporary: files are only ever renamed to their places when whole.

#pragma once

#include <atomic>
#include <chrono>
#include <stop_token>
#include <thread>

namespace energon::cli {

/// Once a process, in main().
void catch_interrupts();

/// For a command that has something to save when a signal comes: how long its last piece of work
/// may take, whole seconds.
void grant_interrupt_grace(std::chrono::seconds grace);

/// The number of the signal that came, 0 if none did.
int interrupt_signal();

/// A stop token that is requested when a signal comes; further signals change nothing while there
/// is one. Has a thread, so not for commands that fork.
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
