// Refuses a call of a loader while another thread is in one.
//
// A loader is for one thread at a time. That two threads use it at once is a mistake of the
// program, which would otherwise be seen as damaged batches or a crash.

#pragma once

#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "io/owner_process.h"

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

  /// `what` names the call, such as "next()"; it must be a literal. Throws Error (kInvalidArgument)
  /// with the names of both calls if one runs.
  [[nodiscard]] Call enter(const char* what);

  /// The same, but waits until the call of another thread has ended. Nothing if the calling thread
  /// itself is in a call.
  [[nodiscard]] std::optional<Call> enter_after_others(const char* what);

 private:
  bool try_enter(const char* what, const char*& running);
  bool is_in_call() const;
  void leave();

  const OwnerProcess owner_;
  std::atomic<const char*> running_{nullptr};
  std::atomic<std::thread::id> thread_{};
};

}  // namespace energon
