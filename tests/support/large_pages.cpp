// A library for LD_PRELOAD that makes this system look like one with memory pages of 64 KiB, such
// as some kernels for ARM: sysconf() reports that size, mappings start at multiples of it, and
// memory can only be released in whole pages.

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace {

constexpr std::size_t kPage = 65536;
constexpr std::size_t kRealPage = 4096;

std::size_t past_page(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kPage;
}

int refused() {
  errno = EINVAL;
  return -1;
}

void* map(void* address, std::size_t size, int protection, int flags, int fd, off_t offset) {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, size, protection, flags, fd, offset));
}

void unmap(char* begin, std::size_t size) {
  if (size > 0) {
    ::syscall(SYS_munmap, begin, size);
  }
}

}  // namespace

extern "C" {

long sysconf(int name) noexcept {
  using Sysconf = long (*)(int);
  static const auto real = reinterpret_cast<Sysconf>(::dlsym(RTLD_NEXT, "sysconf"));
  return name == _SC_PAGESIZE ? static_cast<long>(kPage) : real(name);
}

int madvise(void* address, std::size_t size, int advice) noexcept {
  if (advice == MADV_REMOVE && (past_page(address) != 0 || size % kPage != 0)) {
    return refused();
  }
  return static_cast<int>(::syscall(SYS_madvise, address, size, advice));
}

int munmap(void* address, std::size_t size) noexcept {
  if (past_page(address) != 0) {
    return refused();
  }
  return static_cast<int>(::syscall(SYS_munmap, address, size));
}

void* mmap(void* address, std::size_t size, int protection, int flags, int fd,
           off_t offset) noexcept {
  if (address != nullptr) {
    if (past_page(address) != 0) {
      refused();
      return MAP_FAILED;
    }
    return map(address, size, protection, flags, fd, offset);
  }
  // Inside a larger reservation, the rest of which is released.
  const std::size_t end = (size + kRealPage - 1) / kRealPage * kRealPage;
  void* const room =
      map(nullptr, end + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    return room;
  }
  auto* const begin = static_cast<char*>(room);
  const std::size_t before = (kPage - past_page(room)) % kPage;
  void* const mapped = map(begin + before, size, protection, flags | MAP_FIXED, fd, offset);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    unmap(begin, end + kPage);
    errno = error;
    return mapped;
  }
  unmap(begin, before);
  unmap(begin + before + end, kPage - before);
  return mapped;
}

void* mmap64(void* address, std::size_t size, int protection, int flags, int fd,
             off64_t offset) noexcept {
  return mmap(address, size, protection, flags, fd, offset);
}

}  // extern "C"
