// Lets one call of a loader run at a time, and lets short calls of other threads in beside it.
//
// A loader is for one thread at a time. That two threads take batches at once is a mistake of the
// program, which would otherwise be seen as damaged batches or a crash. What only looks at the
// loader, such as a save, is welcome from any thread: if no call runs, it is the one that runs, and
// the next call waits for it; else it must do with what is safe beside another call.

#pragma once

#include <optional>
#include <thread>
#include <utility>

#include "io/concurrency.h"

namespace energon {

/// Thread-safe. In a forked child of the process that made it, every call is let in, because the
/// thread that was in a call does not exist there.
class OneCaller {
 public:
  /// One call, until it is destroyed. Move-only.
  class Call {
   public:
    explicit Call(OneCaller* caller) : caller_(caller) {}
    Call(Call&& other) noexcept : caller_(std::exchange(other.caller_, nullptr)) {}
    Call& operator=(Call&&) = delete;
    ~Call() {
      if (caller_ != nullptr) {
        caller_->leave();
      }
    }

   private:
    OneCaller* caller_;
  };

  /// `what` names the call, such as "next()"; it must be a literal. Waits while a brief call of
  /// another thread runs. Throws Error (kInvalidArgument) with the names of both calls if any other
  /// call runs.
  [[nodiscard]] Call enter(const char* what);

  /// For a call that takes a moment and that must not end others. Nothing if a call runs that is
  /// not brief, or waits to: then the caller must not touch what that call uses.
  [[nodiscard]] std::optional<Call> enter_briefly(const char* what);

  /// As enter(), but waits until the call of another thread has ended. Nothing if the calling
  /// thread itself is in a call.
  [[nodiscard]] std::optional<Call> enter_after_others(const char* what);

 private:
  bool is_in_call() const ENERGON_REQUIRES(mutex_) {
    return running_ != nullptr && thread_ == std::this_thread::get_id();
  }
  void begin(const char* what, bool is_brief) ENERGON_REQUIRES(mutex_);
  void wait() ENERGON_REQUIRES(mutex_);
  void leave();

  const OwnerProcess owner_;
  Mutex mutex_;
  Condition ended_;
  const char* running_ ENERGON_GUARDED_BY(mutex_) = nullptr;
  bool is_brief_ ENERGON_GUARDED_BY(mutex_) = false;
  std::thread::id thread_ ENERGON_GUARDED_BY(mutex_);
  int waiting_ ENERGON_GUARDED_BY(mutex_) = 0;  // calls that are not brief
};

}  // namespace energon
