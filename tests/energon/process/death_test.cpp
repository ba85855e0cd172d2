// The reported cause of a death: an exception of the worker, the end of the fork server, the
// out-of-memory killer.

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/process/fork.h"
#include "energon/process/fork_server.h"
#include "io/error.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/refused_call.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using energon::Error;
using energon::ErrorCode;
using energon::ForkServer;
using energon::OomKills;
using energon::ProcessEnd;
using energon::WorkerProcess;
using energon::WorkerStart;
using namespace energon::testing;

namespace {

int idle_worker(WorkerStart& start) {
  std::vector<energon::Waitable> waitables;
  for (const int fd : start.watch->descriptors()) {
    waitables.push_back({fd});
  }
  energon::wait_any(waitables, energon::kNever);
  return energon::kExitParentGone;
}

void write_file(const std::string& file, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::ofstream(file) << text;
}

/// The files of a control group as the kernel shows them.
struct ControlGroup {
  void kills(int count) const {
    write_file(root.file(counter), fmt::format(fmt::runtime(format), count));
  }

  TempDir root;
  std::string counter;
  std::string format;
};

std::unique_ptr<ControlGroup> version_2(const std::string& path, const std::string& at) {
  auto group = std::make_unique<ControlGroup>();
  write_file(group->root.file("proc/self/cgroup"), "0::" + path + "\n");
  group->counter = "sys/fs/cgroup" + at + "/memory.events";
  group->format = "low 0\nhigh 0\nmax 71\noom 9\noom_kill {}\noom_group_kill 0\n";
  group->kills(4);
  return group;
}

std::unique_ptr<ControlGroup> version_1() {
  auto group = std::make_unique<ControlGroup>();
  write_file(group->root.file("proc/self/cgroup"),
             "5:cpu,cpuacct:/job\n4:memory:/job/step_0\n0::/\n");
  group->counter = "sys/fs/cgroup/memory/job/step_0/memory.oom_control";
  group->format = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n";
  group->kills(4);
  return group;
}

}  // namespace

TEST_CASE_METHOD(ProcessFixture,
                 "an exception of a worker's main function is the error of its death",
                 "[process][death][fork]") {
  ForkServer server([](WorkerStart& start) -> int {
    switch (start.worker_id) {
      case 0:
        throw Error(ErrorCode::kResourceExhausted, "no space for its channel", {.path = "/a/b"});
      case 1:
        throw std::runtime_error(std::string(100'000, 'x'));
      default:
        throw 7;
    }
  });
  const auto death_of = [&](int id) {
    const WorkerProcess worker = server.spawn({.worker_id = id}, hang_limit());
    CHECK(server.exit_of(worker, hang_limit()) ==
          ProcessEnd{ProcessEnd::Kind::kExited, energon::kExitException});
    return server.death_of(worker, hang_limit());
  };
  const Error first = death_of(0);
  CHECK(first.code() == ErrorCode::kResourceExhausted);
  CHECK(first.context().worker == 0);
  CHECK_THAT(first.what(),
             Catch::Contains("gave up: no space for its channel [path: /a/b, worker: 0]") &&
                 !Catch::Contains("112"));
  const Error second = death_of(1);
  CHECK(second.code() == ErrorCode::kInternal);
  CHECK_THAT(second.what(), Catch::Contains(std::string(4000, 'x')));
  CHECK_THAT(death_of(2).what(), Catch::Contains("not a std::exception"));
}

TEST_CASE_METHOD(ProcessFixture,
                 "a death without an exception is reported with detail, signal or code",
                 "[process][death][fork]") {
  ForkServer server(idle_worker);
  const WorkerProcess worker = server.spawn({.worker_id = 3}, hang_limit());
  worker.process.send_signal(SIGKILL);
  const Error error = server.death_of(
      worker, hang_limit(), [](const ProcessEnd& end) { return "was " + end.describe(); });
  CHECK(error.code() == ErrorCode::kWorkerDied);
  CHECK_THAT(error.what(), Catch::Contains("worker 3") &&
                               Catch::Contains("; was killed by signal 9 (SIGKILL)") &&
                               !Catch::Contains("out-of-memory"));
}

TEST_CASE_METHOD(ProcessFixture, "a killed fork server is named as the cause, not its workers",
                 "[process][death][fork]") {
  ForkServer server(idle_worker);
  const WorkerProcess worker = server.spawn({.worker_id = 1}, hang_limit());
  const pid_t pid = server.pid();
  ::kill(pid, SIGKILL);
  for (int call = 0; call < 2; ++call) {
    CAPTURE(call);
    const Error error = server.death_of(worker, hang_limit());
    CHECK(error.code() == ErrorCode::kWorkerDied);
    CHECK_THAT(error.what(),
               Catch::Contains(fmt::format(
                   "the fork server is gone (pid {}, killed by signal 9 (SIGKILL))", pid)));
  }
  CHECK_THROWS_WITH(server.spawn({.worker_id = 1}, hang_limit()),
                    Catch::Contains("killed by signal 9"));
}

TEST_CASE_METHOD(ProcessFixture, "a kill counted by the control group is reported as out of memory",
                 "[process][death][fork]") {
  for (const auto& group : {version_1(), version_2("/job/step_0", "/job/step_0"),
                            version_2("/kubepods/pod7", ""), version_2("/", "")}) {
    CAPTURE(group->counter);
    ForkServer server(idle_worker, {.system_root = group->root.path()});
    const auto killed = [&](int kills_meanwhile) {
      const WorkerProcess worker = server.spawn({.worker_id = 0}, hang_limit());
      group->kills(kills_meanwhile);
      worker.process.send_signal(SIGKILL);
      return std::string(server.death_of(worker, hang_limit()).what());
    };
    CHECK_THAT(killed(4), !Catch::Contains("out-of-memory"));
    CHECK_THAT(killed(5), Catch::Contains("out-of-memory killer ended 1 process") &&
                              Catch::Contains(group->root.file(group->counter)));
    CHECK_THAT(killed(5), !Catch::Contains("out-of-memory"));  // an earlier kill
    ::kill(server.pid(), SIGKILL);
    REQUIRE(eventually([&] { return !server.alive(); }));
    group->kills(7);
    CHECK_THROWS_WITH(
        server.spawn({.worker_id = 0}, hang_limit()),
        Catch::Contains("fork server is gone") && Catch::Contains("ended 2 processes"));
  }
}

TEST_CASE("kills are counted from the last mark on, and not without a control group",
          "[process][death]") {
  const auto group = version_2("/job", "/job");
  OomKills kills(group->root.path());
  CHECK(kills.since_mark() == 0);
  group->kills(6);
  CHECK(kills.since_mark() == 2);
  kills.mark();
  CHECK(kills.since_mark() == 0);
  std::filesystem::remove(group->root.file(group->counter));
  CHECK(kills.since_mark() == 0);
  const OomKills none(group->root.file("nothing"));
  CHECK(none.file().empty());
  CHECK(none.since_mark() == 0);
}

TEST_CASE_METHOD(ProcessFixture, "a worker that cannot start its watchdog reports why",
                 "[process][death][fork]") {
  const ChildResult child = run_in_child([] {
    if (::setuid(65531) != 0) {  // a separate user, as the limit counts its processes; not root
      return 77;
    }
    ForkServer server(idle_worker);
    const rlimit limit{3, 3};  // this process, the fork server and one more, without threads
    if (::prlimit(server.pid(), RLIMIT_NPROC, &limit, nullptr) != 0) {
      return 77;
    }
    const WorkerProcess worker = server.spawn({.worker_id = 4}, hang_limit());
    const Error error = server.death_of(worker, hang_limit());
    const std::string text = error.what();
    return error.code() == ErrorCode::kResourceExhausted &&
                   text.find("watchdog thread") != std::string::npos &&
                   text.find("ulimit -u") != std::string::npos
               ? 0
               : 1;
  });
  if (child.exit_code == 77) {
    return skip_case("not permitted to change the user or its limits");
  }
  CHECK(child.exit_code == 0);
}

TEST_CASE(
    "a sandbox that forbids to wait for a process by its pidfd is an error, not the end of that",
    "[process][death][fork]") {
  const auto result = run_in_child([] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    const auto handle = energon::ProcessHandle::open(child);
    if (!refuse_system_call(SYS_waitid, EPERM)) {
      ::kill(child, SIGKILL);
      return 77;
    }
    int code = 1;
    try {
      handle.reap();
    } catch (const Error& error) {
      code = std::string_view(error.what()).find("waitid") != std::string_view::npos ? 0 : 2;
    }
    ::kill(child, SIGKILL);
    return code;
  });
  if (result.exit_code == 77) {
    return skip_case("not permitted to filter system calls");
  }
  CHECK(result.exit_code == 0);
}
