#include "energon/process/wait_check.h"

#include <algorithm>
#include <chrono>

#include "energon/process/patience.h"
#include "io/error.h"

namespace energon {

Deadline WaitCheck::step(Deadline deadline) {
  return std::min(deadline, deadline_after(kCheckInterval));
}

void WaitCheck::look() { look_if(check_ && std::chrono::steady_clock::now() >= next_); }

void WaitCheck::look_after_wait() { look_if(true); }

void WaitCheck::look_if(bool is_due) {
  try {
    if (is_closed()) {
      throw Error(ErrorCode::kCancelled,
                  "the loader was closed: close() was called while this call waited; make a new "
                  "loader and restore its state");
    }
    if (check_ && is_due) {
      next_ = deadline_after(kCheckInterval);
      check_();
    }
  } catch (...) {
    has_ended_wait_ = true;
    thrown_ = std::current_exception();
    throw;
  }
}

void WaitCheck::rethrow() const {
  if (thrown_) {
    std::rethrow_exception(thrown_);
  }
  throw;
}

bool wait_any(std::span<Waitable> descriptors, Deadline deadline, WaitCheck* check) {
  if (check == nullptr) {
    return wait_any(descriptors, deadline);
  }
  Patience patience(std::chrono::ceil<std::chrono::milliseconds>(
      std::max(deadline - std::chrono::steady_clock::now(), Deadline::duration::zero())));
  while (true) {
    check->look();
    if (wait_any(descriptors, WaitCheck::step(patience.look()))) {
      return true;
    }
    if (patience.is_over()) {
      return false;
    }
  }
}

}  // namespace energon
