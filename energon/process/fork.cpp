#include "energon/process/fork.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/process/os_error.h"

// Resolved if the process has an OpenMP runtime.
extern "C" __attribute__((weak)) void omp_set_num_threads(int count);

namespace energon {
namespace {

// Signals that terminals, shells and schedulers send to all processes of a job to end it, to warn
// of the end, or to request a checkpoint. docs/processes.md lists who sends which.
constexpr std::array kIgnored = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                 SIGUSR2, SIGXCPU, SIGXFSZ, SIGPIPE};

void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    ::signal(signal, SIG_DFL);  // refused for SIGKILL, SIGSTOP and the C library's own: fine
  }
  for (const int signal : kIgnored) {
    ::signal(signal, SIG_IGN);  // also takes back one that came since the fork
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

void call(const std::function<void()>& hook) {
  if (hook) {
    hook();
  }
}

[[noreturn]] void run_child(const std::function<int()>& body, const ForkOptions& options,
                            ForeignDescriptors& foreign) {
  int code = kExitException;
  try {
    reset_signals();
    std::vector<int> keep = options.keep;
    keep.insert(keep.end(), options.hooks.keep_descriptors.begin(),
                options.hooks.keep_descriptors.end());
    foreign.replace(keep);
    ::prctl(PR_SET_NAME, options.process_name.c_str());
    if (omp_set_num_threads != nullptr) {
      omp_set_num_threads(1);
    }
    call(options.hooks.child);
    code = body();
  } catch (...) {  // nothing may return into the parent's code
  }
  ::_exit(code);
}

void kill_and_reap(pid_t pid) {
  ::kill(pid, SIGKILL);  // our own child, not reaped yet: the pid is still its own
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

constexpr int kFirstForeign = STDERR_FILENO + 1;
constexpr unsigned kMostWithoutProc = 65536;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// All open descriptors except that of the listing; nullopt without /proc.
std::optional<std::vector<int>> listed_descriptors() {
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir("/proc/self/fd"));
  if (folder == nullptr) {
    return std::nullopt;
  }
  std::vector<int> numbers;
  errno = 0;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    int number = 0;
    const auto end = std::from_chars(name.data(), name.data() + name.size(), number);
    if (end.ec == std::errc() && number != ::dirfd(folder.get())) {
      numbers.push_back(number);
    }
  }
  return errno == 0 ? std::optional(numbers) : std::nullopt;
}

// For a sandbox without /proc. Closes all descriptors above the range that can be checked.
std::vector<int> probed_descriptors() {
  const long limit = ::sysconf(_SC_OPEN_MAX);
  const unsigned end =
      limit > 0 ? static_cast<unsigned>(std::min<long>(limit, kMostWithoutProc)) : kMostWithoutProc;
  std::vector<int> numbers;
  for (int fd = kFirstForeign; fd < static_cast<int>(end); ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) {
      numbers.push_back(fd);
    }
  }
#ifdef SYS_close_range
  ::syscall(SYS_close_range, end, ~0U, 0);
#endif
  return numbers;
}

// Seals alone do not identify a memfd: all files of a tmpfs have them. Nor does a missing name:
// a file of a tmpfs may have been deleted.
bool is_memfd(int fd, const struct stat& status) {
  if (status.st_nlink != 0 || ::fcntl(fd, F_GET_SEALS) < 0) {
    return false;
  }
  constexpr std::string_view kPrefix = "/memfd:";
  std::array<char, kPrefix.size()> target{};
  const ssize_t size =
      ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target.data(), target.size());
  return size < 0 || std::string_view(target.data(), static_cast<std::size_t>(size)) == kPrefix;
}

bool stays(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    return false;
  }
  return S_ISDIR(status.st_mode) || (S_ISREG(status.st_mode) && !is_memfd(fd, status));
}

// P_PIDFD, which glibc has only since 2.36.
constexpr auto kByPidfd = static_cast<idtype_t>(3);

}  // namespace

ProcessHandle fork_child(const std::function<int()>& body, const ForkOptions& options) {
  ForeignDescriptors foreign = ForeignDescriptors::prepare();
  call(options.hooks.before);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) {
    run_child(body, options, foreign);
  }
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  try {
    call(options.hooks.parent);
    if (pid < 0) {
      throw os_error("cannot fork " + options.process_name, error);
    }
    return ProcessHandle::open(pid);
  } catch (...) {
    if (pid > 0) {
      kill_and_reap(pid);
    }
    throw;
  }
}

ForeignDescriptors ForeignDescriptors::prepare() {
  UniqueFd placeholder(::open("/", O_PATH | O_CLOEXEC));
  if (!placeholder.valid()) {
    throw os_error("cannot open a placeholder for descriptors", errno);
  }
  UniqueFd spare(::fcntl(placeholder.get(), F_DUPFD_CLOEXEC, 0));
  if (!spare.valid()) {
    throw os_error("cannot open a placeholder for descriptors", errno);
  }
  return {std::move(placeholder), std::move(spare)};
}

void ForeignDescriptors::replace(std::span<const int> keep) {
  spare_.reset();
  const std::optional<std::vector<int>> listed = listed_descriptors();
  const std::vector<int> numbers = listed ? *listed : probed_descriptors();
  for (const int fd : numbers) {
    const bool is_ours = fd < kFirstForeign || fd == placeholder_.get() ||
                         std::find(keep.begin(), keep.end(), fd) != keep.end();
    if (is_ours || stays(fd)) {
      continue;
    }
    if (::dup3(placeholder_.get(), fd, O_CLOEXEC) < 0) {
      ::close(fd);  // above the limit, which was lowered meanwhile
    }
  }
  placeholder_.reset();
}

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
    return ProcessEnd{};  // not our child, or already reaped
  }
  if (info.si_pid == 0) {
    return std::nullopt;
  }
  const bool exited = info.si_code == CLD_EXITED;
  return ProcessEnd{exited ? ProcessEnd::Kind::kExited : ProcessEnd::Kind::kKilled, info.si_status};
}

}  // namespace energon
