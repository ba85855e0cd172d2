#include "energon/process/wait.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <vector>

#include "energon/process/os_error.h"

namespace energon {
namespace {

timespec time_left(Deadline deadline) {
  const Deadline now = std::chrono::steady_clock::now();
  if (deadline <= now) {  // before the subtraction, which overflows for deadlines far in the past
    return {};
  }
  const std::chrono::nanoseconds left = deadline - now;
  const std::int64_t second = 1'000'000'000;
  timespec result{};
  result.tv_sec = static_cast<std::time_t>(left.count() / second);
  result.tv_nsec = static_cast<long>(left.count() % second);
  return result;
}

bool poll_until(std::span<pollfd> entries, Deadline deadline) {
  for (;;) {
    timespec timeout{};
    timespec* limit = nullptr;
    if (deadline != kNever) {
      timeout = time_left(deadline);
      limit = &timeout;
    }
    const int count = ::ppoll(entries.data(), entries.size(), limit, nullptr);
    if (count >= 0) {
      return count > 0;
    }
    if (errno != EINTR) {
      throw os_error("cannot poll", errno);
    }
  }
}

}  // namespace

bool wait_any(std::span<Waitable> descriptors, Deadline deadline) {
  std::array<pollfd, 8> few{};
  std::vector<pollfd> many;
  std::span<pollfd> entries(few.data(), std::min(descriptors.size(), few.size()));
  if (descriptors.size() > few.size()) {
    many.resize(descriptors.size());
    entries = many;
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const short events = descriptors[i].until_writable ? POLLOUT : POLLIN;
    entries[i] = {descriptors[i].fd, events, 0};
    descriptors[i].ready = false;
  }
  const bool any = poll_until(entries, deadline);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if ((entries[i].revents & POLLNVAL) != 0) {
      throw Error(ErrorCode::kInternal, "waiting for a descriptor that is not open");
    }
    descriptors[i].ready = entries[i].revents != 0;
  }
  return any;
}

bool any_ready(std::span<const int> descriptors) {
  std::vector<Waitable> waitables;
  for (const int fd : descriptors) {
    waitables.push_back({fd});
  }
  return wait_any(waitables, kNow);
}

}  // namespace energon
