// A library for LD_PRELOAD that makes one machine behave like several with a shared folder, or
// kills its process at a chosen step. Environment variables:
//
//   ENERGON_TEST_LOCKS    granted: every lock is given to everyone, as with locks that are local to
//                         a machine; enosys: locks are not supported
//   ENERGON_TEST_PID      what getpid() returns, as in containers
//   ENERGON_TEST_TIMES    lost: files do not keep a modification time that is set
//   ENERGON_TEST_JITTER   the longest random delay of the calls below, in microseconds
//   ENERGON_TEST_KILL_AT  SIGKILL at the N-th call that changes a folder, counted from 1
//   ENERGON_TEST_KILL_IN  counting starts with the first call on a path that contains this
//   ENERGON_TEST_DENY     rename() of a path that contains this fails with EACCES
//   ENERGON_TEST_RUN      a shell command, as if from another machine, that runs once, before
//   ENERGON_TEST_RUN_AT   the first opening of a path that ends with this

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

namespace {

bool is_set(const char* name, const char* value) {
  const char* is = std::getenv(name);
  return is != nullptr && std::strcmp(is, value) == 0;
}

long number(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? 0 : std::atol(value);
}

bool contains(const char* path, const char* part) {
  return path != nullptr && std::strstr(path, part) != nullptr;
}

// Before each call that changes a folder.
void pass(const char* first, const char* second = nullptr) {
  static std::atomic<bool> counts{false};
  static std::atomic<long> passed{0};
  const int error = errno;
  if (const long most = number("ENERGON_TEST_JITTER"); most > 0) {
    unsigned random = 0;
    ::getrandom(&random, sizeof(random), 0);
    ::usleep(random % static_cast<unsigned>(most));
  }
  if (const long at = number("ENERGON_TEST_KILL_AT"); at > 0) {
    const char* in = std::getenv("ENERGON_TEST_KILL_IN");
    if (in == nullptr || contains(first, in) || contains(second, in)) {
      counts = true;
    }
    if (counts && ++passed == at) {
      ::syscall(SYS_kill, ::syscall(SYS_getpid), SIGKILL);
    }
  }
  errno = error;
}

// Before each call that opens a file.
void run_once_at(const char* path) {
  const char* at = std::getenv("ENERGON_TEST_RUN_AT");
  const char* command = std::getenv("ENERGON_TEST_RUN");
  if (at == nullptr || command == nullptr || std::strlen(path) < std::strlen(at) ||
      std::strcmp(path + std::strlen(path) - std::strlen(at), at) != 0) {
    return;
  }
  static std::atomic<bool> has_run{false};
  if (!has_run.exchange(true)) {
    ::unsetenv("LD_PRELOAD");
    ::unsetenv("ENERGON_TEST_RUN_AT");
    if (std::system(command) != 0) {
      std::abort();
    }
  }
}

int result_of(long result) { return static_cast<int>(result); }

}  // namespace

extern "C" {

pid_t getpid() noexcept {
  const long said = number("ENERGON_TEST_PID");
  return static_cast<pid_t>(said > 0 ? said : ::syscall(SYS_getpid));
}

int flock(int fd, int operation) noexcept {
  if (is_set("ENERGON_TEST_LOCKS", "granted")) {
    return 0;
  }
  if (is_set("ENERGON_TEST_LOCKS", "enosys")) {
    errno = ENOSYS;
    return -1;
  }
  return result_of(::syscall(SYS_flock, fd, operation));
}

int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool is_lock = command == F_SETLK || command == F_SETLKW || command == F_GETLK ||
                       command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_OFD_GETLK;
  if (is_lock && is_set("ENERGON_TEST_LOCKS", "granted")) {
    if (command == F_GETLK || command == F_OFD_GETLK) {
      static_cast<struct flock*>(argument)->l_type = F_UNLCK;
    }
    return 0;
  }
  if (is_lock && is_set("ENERGON_TEST_LOCKS", "enosys")) {
    errno = ENOSYS;
    return -1;
  }
  return result_of(::syscall(SYS_fcntl, fd, command, argument));
}

int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return fcntl(fd, command, argument);
}

int utimensat(int folder, const char* path, const timespec* times, int flags) noexcept {
  return is_set("ENERGON_TEST_TIMES", "lost")
             ? 0
             : result_of(::syscall(SYS_utimensat, folder, path, times, flags));
}

int futimens(int fd, const timespec* times) noexcept {
  return is_set("ENERGON_TEST_TIMES", "lost")
             ? 0
             : result_of(::syscall(SYS_utimensat, fd, nullptr, times, 0));
}

int open(const char* path, int flags, ...) {
  run_once_at(path);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return result_of(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open(path, flags, mode);
}

int rename(const char* from, const char* to) noexcept {
  pass(from, to);
  const char* denied = std::getenv("ENERGON_TEST_DENY");
  if (denied != nullptr && (contains(from, denied) || contains(to, denied))) {
    errno = EACCES;
    return -1;
  }
  return result_of(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int link(const char* from, const char* to) noexcept {
  pass(from, to);
  return result_of(::syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int unlink(const char* path) noexcept {
  pass(path);
  return result_of(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  pass(path);
  return result_of(::syscall(SYS_unlinkat, folder, path, flags));
}

int mkdir(const char* path, mode_t mode) noexcept {
  pass(path);
  return result_of(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int rmdir(const char* path) noexcept {
  pass(path);
  return result_of(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

int fsync(int fd) {
  pass(nullptr);
  return result_of(::syscall(SYS_fsync, fd));
}

}  // extern "C"
