#include "io/write_all.h"

#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace energon {

WriteSignalsBlocked::WriteSignalsBlocked() {
  sigset_t pending;
  ::sigpending(&pending);
  ::sigemptyset(&raised_);
  for (const int number : {SIGXFSZ, SIGPIPE}) {
    if (::sigismember(&pending, number) == 0) {
      ::sigaddset(&raised_, number);
    }
  }
  ::pthread_sigmask(SIG_BLOCK, &raised_, &mask_);
}

WriteSignalsBlocked::~WriteSignalsBlocked() {
  const int error = errno;
  const timespec now{};
  while (::sigtimedwait(&raised_, nullptr, &now) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  errno = error;
}

int try_write_all(int fd, ByteView content) noexcept {
  const WriteSignalsBlocked blocked;
  while (!content.empty()) {
    const ssize_t count = ::write(fd, content.data(), content.size());
    if (count < 0 && errno != EINTR) {
      return errno;
    }
    content = content.subspan(count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  return 0;
}

void write_all(int fd, ByteView content, std::string_view operation, const ErrorContext& where) {
  const int error = try_write_all(fd, content);
  if (error == EFBIG) {
    throw io_error(std::string(operation) + " (file size limit of the process, see ulimit -f)",
                   error, where);
  }
  if (error != 0) {
    throw io_error(operation, error, where);
  }
}

}  // namespace energon
