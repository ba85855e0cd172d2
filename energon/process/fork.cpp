#include "energon/process/fork.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <vector>

#include "energon/process/foreign_descriptors.h"
#include "energon/process/os_error.h"

// Resolved if the process has an OpenMP runtime.
extern "C" __attribute__((weak)) void omp_set_num_threads(int count);

namespace energon {
namespace {

// What terminals, shells and schedulers send to all processes of a job: to ask for its end, to warn
// of it, or to ask for a checkpoint. docs/processes.md says who sends which.
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

}  // namespace energon
