// Runs a program that ends with the test that started it, however the test ends:
//
//   energon_test_guard PARENT_PID fork|no-fork PROGRAM ARGUMENTS…
//
// With no-fork, the program is killed by SIGSYS when it forks: only test cases tagged [fork] may
// run programs that fork. Threads and vfork are allowed.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

// clone3 hides its flags from filters; without it libc uses clone. On a machine without filters,
// forks go unnoticed.
void refuse_forks() {
  std::vector<sock_filter> code = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
#ifdef SYS_fork
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fork, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
#endif
#ifdef SYS_clone3
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
#endif
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_VM, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
    ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s PARENT_PID fork|no-fork PROGRAM ARGUMENTS…\n", argv[0]);
    return 2;
  }
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    std::perror("prctl");
    return 2;
  }
  if (::getppid() != std::atoi(argv[1])) {
    return 2;  // the parent ended before this program asked for the signal
  }
  if (std::string(argv[2]) == "no-fork") {
    refuse_forks();
  }
  ::execv(argv[3], argv + 3);
  std::perror(argv[3]);
  return 127;
}
