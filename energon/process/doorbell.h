// A wake-up that survives the death of either side: an eventfd.
//
// A doorbell carries no information. A waiting side sets its flag in the shared ring, checks the
// ring once more, and only then polls. A publishing side rings only if that flag is set. One
// doorbell belongs to one waiting thread and may serve several rings.

#pragma once

#include <utility>

#include "io/file.h"

namespace energon {

/// Thread-safe.
class Doorbell {
 public:
  /// Throws Error (kResourceExhausted) if no descriptor is left.
  Doorbell();
  /// Takes ownership of an eventfd, such as one received over a socket.
  explicit Doorbell(UniqueFd fd) : fd_(std::move(fd)) {}

  /// Wakes the thread that polls fd(), now or at its next poll. Never blocks.
  void ring() const noexcept;
  /// Clears all rings so far.
  void clear() const noexcept;

  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace energon
