#include "energon/process/doorbell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "energon/process/os_error.h"

namespace energon {
namespace {

UniqueFd open_eventfd() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) {
    throw os_error("cannot make an eventfd", errno);
  }
  return fd;
}

}  // namespace

Doorbell::Doorbell() : fd_(open_eventfd()) {}

void Doorbell::ring() const noexcept {
  const std::uint64_t one = 1;
  // EAGAIN means that the counter is full of rings nobody took: the waiter will wake anyway.
  while (::write(fd_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void Doorbell::clear() const noexcept {
  std::uint64_t count = 0;
  while (::read(fd_.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

}  // namespace energon
