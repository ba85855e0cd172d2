#include "tests/guard/calls.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

/// In memory shared with forked children.
struct Counters {
  std::atomic<std::uint64_t> preads{0};
  std::atomic<std::uint64_t> opens{0};
  std::atomic<std::uint64_t> transport{0};
};

std::atomic<std::uint64_t> allocation_count{0};

Counters& counters() {
  static Counters* const shared = [] {
    void* const memory = ::mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      std::abort();
    }
    return new (memory) Counters;
  }();
  return *shared;
}

// Before a child is forked.
[[maybe_unused]] const Counters& made_at_the_start = counters();

void add_one(std::atomic<std::uint64_t>& counter) {
  counter.fetch_add(1, std::memory_order_relaxed);
}

void* allocate(std::size_t size, std::size_t alignment) {
  add_one(allocation_count);
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    memory = std::malloc(size == 0 ? 1 : size);
  } else if (::posix_memalign(&memory, alignment, size) != 0) {
    memory = nullptr;
  }
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

extern "C" {

ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  add_one(counters().preads);
  return ::syscall(SYS_pread64, fd, buffer, size, offset);
}

int open(const char* path, int flags, ...) {
  if (std::strncmp(path, "/proc/", 6) != 0) {
    add_one(counters().opens);
  }
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

ssize_t read(int fd, void* buffer, size_t size) {
  add_one(counters().transport);
  return ::syscall(SYS_read, fd, buffer, size);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  add_one(counters().transport);
  return ::syscall(SYS_write, fd, bytes, size);
}

int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  add_one(counters().transport);
  // The kernel writes the remaining time.
  timespec left = timeout != nullptr ? *timeout : timespec{};
  constexpr std::size_t kMaskBytes = 8;
  return static_cast<int>(::syscall(SYS_ppoll, descriptors, count,
                                    timeout != nullptr ? &left : nullptr, mask, kMaskBytes));
}

int poll(pollfd* descriptors, nfds_t count, int timeout_ms) {
  const timespec timeout{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  return ::ppoll(descriptors, count, timeout_ms < 0 ? nullptr : &timeout, nullptr);
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  add_one(counters().transport);
  return ::syscall(SYS_clock_nanosleep, clock, flags, time, left) == 0 ? 0 : errno;
}

int nanosleep(const timespec* time, timespec* left) {
  add_one(counters().transport);
  return static_cast<int>(::syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, time, left));
}
}

namespace energon::testing {

Calls Calls::now() {
  const auto value = [](const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  return {value(allocation_count), value(counters().preads), value(counters().opens),
          value(counters().transport)};
}

}  // namespace energon::testing
