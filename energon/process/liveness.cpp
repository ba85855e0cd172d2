#include "energon/process/liveness.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "energon/process/os_error.h"

namespace energon {

Lifeline Lifeline::open() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw os_error("cannot make a pipe", errno);
  }
  Lifeline lifeline{UniqueFd(), UniqueFd(ends[0]), UniqueFd(ends[1])};
  UniqueFd pidfd(::fcntl(ProcessHandle::open(::getpid()).fd(), F_DUPFD_CLOEXEC, 0));
  if (!pidfd.valid()) {
    throw os_error("cannot duplicate a pidfd", errno);
  }
  lifeline.parent_pidfd = std::move(pidfd);
  return lifeline;
}

bool ParentWatch::gone() const { return any_ready(descriptors_); }

void ParentWatch::exit_when_gone() const {
  try {
    std::vector<Waitable> waitables;
    for (const int fd : descriptors_) {
      waitables.push_back({fd});
    }
    wait_any(waitables, kNever);
  } catch (...) {  // user code closed our descriptors: nobody would notice a dead parent
  }
  ::_exit(kExitParentGone);
}

void ParentWatch::start_exit_thread() const {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the thread
  int failed = 0;
  try {
    std::thread([this] { exit_when_gone(); }).detach();
  } catch (const std::system_error& error) {
    failed = error.code().value();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) {
    throw os_error("cannot start the watchdog thread", failed);
  }
}

}  // namespace energon
