// The functions that run the program for the other cases: it ends with its test, and may fork only
// in cases with the tag.

#include "tests/cli/energon_program.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "energon/process/shared_memory.h"
#include "tests/support/child_runner.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/skip.h"

using namespace energon::testing;

TEST_CASE("a program ends with its test, however the test ends", "[cli][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, {100});
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // the program becomes a child of this process then
  const auto shared = energon::SharedMemory::create(4096);
  auto* pid = reinterpret_cast<std::atomic<pid_t>*>(shared->data());
  const ChildResult test = run_in_child([&] {
    // It writes nothing while it runs, so a closed pipe does not end it.
    RunningProgram program({"bench", folder.path(), "--seconds", "1000", "--num-workers", "0"});
    *pid = program.pid();
    const std::string exe = "/proc/" + std::to_string(program.pid()) + "/exe";
    while (!std::filesystem::equivalent(exe, ENERGON_PROGRAM)) {  // still the guard
    }
    ::raise(SIGALRM);
    return 2;
  });
  CHECK(test.signal == SIGALRM);
  const ChildResult program = await_child(*pid, std::chrono::seconds(60));
  CHECK_FALSE(program.timed_out);
  CHECK(program.signal == SIGKILL);
}

TEST_CASE("a program that forks in a case without the tag is noticed", "[cli]") {
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nullptr) != 0 && errno != EFAULT) {
    return skip_case("this machine has no filters of system calls");
  }
  const TempDir folder;
  write_numbered_shards(folder, {10});
  CHECK(run_energon({"run", folder.path(), "--limit", "1", "--num-workers", "0"}).exit_code == 0);
  CHECK_THROWS_WITH(run_energon({"run", folder.path(), "--limit", "1", "--num-workers", "1"}),
                    Catch::Contains("forked in a test case without the tag"));
}
