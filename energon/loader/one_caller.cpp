#include "energon/loader/one_caller.h"

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

bool OneCaller::try_enter(const char* what, const char*& running) {
  running = nullptr;
  // Acquire: what the last caller wrote is seen.
  if (!running_.compare_exchange_strong(running, what, std::memory_order_acquire)) {
    return false;
  }
  thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);  // see is_in_call()
  return true;
}

// Relaxed: a thread that is in a call has stored its own id itself.
bool OneCaller::is_in_call() const {
  return thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

OneCaller::Call OneCaller::enter(const char* what) {
  if (!owner_.is_current()) {
    return Call(nullptr);
  }
  const char* running = nullptr;
  if (!try_enter(what, running)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} was called while {} of the same loader {}; a loader is for one "
                            "thread at a time: give each thread its own loader, or use a mutex",
                            what, running,
                            is_in_call() ? "was calling a function in this thread"
                                         : "ran in another thread"));
  }
  return Call(this);
}

std::optional<OneCaller::Call> OneCaller::enter_after_others(const char* what) {
  if (!owner_.is_current()) {
    return Call(nullptr);
  }
  for (const char* running = nullptr; !try_enter(what, running);) {
    if (is_in_call()) {
      return std::nullopt;
    }
    running_.wait(running, std::memory_order_acquire);
  }
  return Call(this);
}

void OneCaller::leave() {
  thread_.store(std::thread::id(), std::memory_order_relaxed);
  running_.store(nullptr, std::memory_order_release);  // to the next caller
  running_.notify_all();
}

}  // namespace energon
