#include "energon/loader/one_caller.h"

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

void OneCaller::begin(const char* what, bool is_brief) {
  running_ = what;
  is_brief_ = is_brief;
  thread_ = std::this_thread::get_id();
}

void OneCaller::wait() {
  ++waiting_;
  ended_.wait(mutex_);
  --waiting_;
}

OneCaller::Call OneCaller::enter(const char* what) {
  if (!owner_.is_current()) {
    return Call(nullptr);
  }
  const MutexLock lock(mutex_);
  while (running_ != nullptr) {
    if (!is_brief_ || is_in_call()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} was called while {} of the same loader {}; a loader is for one "
                              "thread at a time: give each thread its own loader, or use a mutex",
                              what, running_,
                              is_in_call() ? "was calling a function in this thread"
                                           : "ran in another thread"));
    }
    wait();
  }
  begin(what, false);
  return Call(this);
}

std::optional<OneCaller::Call> OneCaller::enter_briefly(const char* what) {
  if (!owner_.is_current()) {
    return Call(nullptr);
  }
  const MutexLock lock(mutex_);
  while (running_ != nullptr && is_brief_ && waiting_ == 0 && !is_in_call()) {
    ended_.wait(mutex_);
  }
  if (running_ != nullptr || waiting_ > 0) {
    return std::nullopt;
  }
  begin(what, true);
  return Call(this);
}

std::optional<OneCaller::Call> OneCaller::enter_after_others(const char* what) {
  if (!owner_.is_current()) {
    return Call(nullptr);
  }
  const MutexLock lock(mutex_);
  while (running_ != nullptr) {
    if (is_in_call()) {
      return std::nullopt;
    }
    wait();
  }
  begin(what, false);
  return Call(this);
}

void OneCaller::leave() {
  const MutexLock lock(mutex_);
  running_ = nullptr;
  ended_.notify_all();
}

}  // namespace energon
