// A wake-up that survives the death of either side: an eventfd.
//
// A doorbell carries no information. Who waits sets its flag in the shared ring, looks at the ring
// once more, and only then polls; who publishes rings only if that flag is set. One doorbell
// belongs to one waiting thread and may serve several rings.

#pragma once

#include <utility>

#include "io/unique_fd.h"

namespace energon {

/// Thread-safe.
class Doorbell {
 public:
  /// Throws Error (kResourceExhausted) if no descriptor is left.
  Doorbell();
  /// Takes over an eventfd, such as one that came over a socket.
  explicit Doorbell(UniqueFd fd) : fd_(std::move(fd)) {}

  /// Wakes who polls fd(), now or at its next poll. Never blocks.
  void ring() const noexcept;
  /// Takes back all rings so far.
  void clear() const noexcept;

  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace energon
