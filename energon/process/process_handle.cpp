#include "energon/process/process_handle.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "energon/process/os_error.h"

namespace energon {
namespace {

// P_PIDFD, which glibc has only since 2.36.
constexpr auto kByPidfd = static_cast<idtype_t>(3);

}  // namespace

std::string ProcessEnd::describe() const {
  switch (kind) {
    case Kind::kExited:
      return fmt::format("exited with code {}", value);
    case Kind::kKilled: {
      const char* name = ::sigabbrev_np(value);
      return fmt::format("killed by signal {} (SIG{})", value, name != nullptr ? name : "?");
    }
    case Kind::kUnknown:
      return "ended with unknown status";
  }
  return "ended";
}

ProcessHandle ProcessHandle::open(pid_t pid) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // always close-on-exec
  if (!pidfd.valid()) {
    throw os_error(fmt::format("cannot open a pidfd of process {}", pid), errno);
  }
  return {pid, std::move(pidfd)};
}

bool ProcessHandle::wait_ended(Deadline deadline) const {
  std::array<Waitable, 1> waitables{{{pidfd_.get()}}};
  return wait_any(waitables, deadline);
}

bool ProcessHandle::ended() const { return wait_ended(kNow); }

bool ProcessHandle::send_signal(int signal) const {
  if (::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0) == 0) {
    return true;
  }
  if (errno == ESRCH) {
    return false;
  }
  throw os_error(fmt::format("cannot signal process {}", pid_), errno);
}

std::optional<ProcessEnd> ProcessHandle::reap() const {
  siginfo_t info{};
  int result = 0;
  do {
    result = ::waitid(kByPidfd, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno != ECHILD) {
    throw os_error(fmt::format("cannot wait for process {} by its pidfd (waitid)", pid_), errno);
  }
  if (result != 0) {
    return ProcessEnd{};  // not our child, or someone else took its status
  }
  if (info.si_pid == 0) {
    return std::nullopt;
  }
  const bool exited = info.si_code == CLD_EXITED;
  return ProcessEnd{exited ? ProcessEnd::Kind::kExited : ProcessEnd::Kind::kKilled, info.si_status};
}

}  // namespace energon
