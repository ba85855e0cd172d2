#include "tests/support/count_system_calls.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

namespace energon::testing {
namespace {

constexpr int kFailed = 99;

bool is_about_memory_or_threads(std::uint64_t number) {
  constexpr std::array kNumbers = {SYS_brk,     SYS_mmap,      SYS_munmap, SYS_mremap,
                                   SYS_madvise, SYS_mprotect,  SYS_futex,  SYS_sched_yield,
                                   SYS_rseq,    SYS_exit,      SYS_clone3, SYS_set_robust_list,
                                   SYS_kill,    SYS_exit_group};
  return std::find(kNumbers.begin(), kNumbers.end(), static_cast<long>(number)) != kNumbers.end();
}

// In the child: runs only `body` between two signals to itself.
[[noreturn]] void run_traced(const std::function<void()>& body) {
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
    ::_exit(kFailed);
  }
  ::kill(::getpid(), SIGSTOP);
  try {
    body();
  } catch (...) {
    ::_exit(kFailed);
  }
  ::_exit(0);
}

// Runs `child` for one step; returns its status.
int step(pid_t child) {
  int status = 0;
  ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  return ::waitpid(child, &status, 0) == child ? status : kFailed << 8;
}

}  // namespace

std::optional<std::int64_t> count_system_calls(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    run_traced(body);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
    return std::nullopt;
  }
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  constexpr int kSystemCall = SIGTRAP | 0x80;
  std::int64_t calls = 0;
  while (!WIFEXITED(status) && !WIFSIGNALED(status)) {
    status = step(child);
    __ptrace_syscall_info info{};
    if (WIFSTOPPED(status) && WSTOPSIG(status) == kSystemCall &&
        ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) > 0 &&
        info.op == PTRACE_SYSCALL_INFO_ENTRY && !is_about_memory_or_threads(info.entry.nr)) {
      ++calls;
    }
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? std::optional(calls) : std::nullopt;
}

}  // namespace energon::testing
