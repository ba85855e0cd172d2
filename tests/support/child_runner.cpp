#include "tests/support/child_runner.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>

#include "io/file.h"
#include "tests/support/sanitizer.h"

#if ENERGON_ADDRESS_SANITIZER
#include <sanitizer/lsan_interface.h>
#endif

namespace energon::testing {
namespace {

int run_body(const std::function<int()>& body) {
  int code = 99;
  try {
    code = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child failed: %s\n", error.what());
  }
#if ENERGON_ADDRESS_SANITIZER
  if (__lsan_do_recoverable_leak_check() != 0) {
    return 98;
  }
#endif
  return code;
}

}  // namespace

ChildResult run_in_child(const std::function<int()>& body, std::chrono::milliseconds limit) {
  return await_child(start_child(body), limit);
}

pid_t start_child(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) {
    throw std::runtime_error("fork failed");
  }
  if (pid == 0) {
    const int code = run_body(body);
    std::fflush(nullptr);
    ::_exit(code);
  }
  return pid;
}

ChildResult await_child(pid_t pid, std::chrono::milliseconds limit) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  ChildResult result;
  pollfd poll_entry{pidfd.get(), POLLIN, 0};
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int ready = 0;
  do {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    ready = ::poll(&poll_entry, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    result.timed_out = true;
    ::kill(pid, SIGKILL);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exited = WIFEXITED(status);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return result;
}

}  // namespace energon::testing
