#include "energon/process/wait.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <vector>

#include "energon/process/os_error.h"
#include "io/error.h"

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

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kLongestTimeout = std::chrono::hours(24 * 365 * 100);  // in nanoseconds
constexpr nanoseconds kLongestLook = std::chrono::seconds(1);

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
  ProgressTimeout patience(std::chrono::ceil<std::chrono::milliseconds>(
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

ProgressTimeout::ProgressTimeout(milliseconds timeout)
    : timeout_(std::clamp(timeout, milliseconds(0), kLongestTimeout)),
      longest_look_(std::min<nanoseconds>(timeout_ / 8, kLongestLook)),
      left_(timeout_) {}

Deadline ProgressTimeout::look() {
  begin_ = std::chrono::steady_clock::now();
  length_ = std::min(left_, longest_look_);
  return begin_ + length_;
}

bool ProgressTimeout::is_over() {
  const nanoseconds waited = std::chrono::steady_clock::now() - begin_;
  left_ -= std::min(waited, 2 * length_);
  return left_ <= nanoseconds::zero();
}

}  // namespace energon
