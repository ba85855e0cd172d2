#include "energon/process/fork_server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>

#include <catch2/catch.hpp>

#include "energon/process/fork.h"
#include "energon/process/message_ring.h"
#include "energon/process/shared_memory.h"
#include "energon/process/wait.h"
#include "io/hash.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/energon/process/synthetic_stream.h"
#include "tests/support/child_runner.h"
#include "tests/support/sanitizer.h"
#include "tests/support/skip.h"

using energon::ByteView;
using energon::Doorbell;
using energon::Error;
using energon::ErrorCode;
using energon::ForkServer;
using energon::ProcessEnd;
using energon::SharedMemory;
using energon::WorkerProcess;
using energon::WorkerStart;
using namespace energon::testing;

namespace {

/// Waits for the end of the parent, like an idle worker.
int idle(WorkerStart& start) {
  std::vector<energon::Waitable> waitables;
  for (const int fd : start.watch->descriptors()) {
    waitables.push_back({fd});
  }
  energon::wait_any(waitables, energon::kNever);
  return energon::kExitParentGone;
}

/// User code that never returns and blocks every signal it can.
[[noreturn]] void hang() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  for (std::atomic<bool> forever{true}; forever;) {
  }
  std::abort();
}

std::optional<ErrorCode> code_of_spawn(ForkServer& server) {
  try {
    server.spawn({.worker_id = 4}, hang_limit());
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

constexpr auto kExited = ProcessEnd::Kind::kExited;
constexpr auto kKilled = ProcessEnd::Kind::kKilled;

}  // namespace

TEST_CASE_METHOD(ProcessFixture, "a worker gets id, generation, payload and descriptors",
                 "[process][fork_server][fork]") {
  ForkServer server([](WorkerStart& start) {
    const Doorbell bell(std::move(start.descriptors.at(1)));
    bell.ring();
    const bool right = start.worker_id == 3 && start.generation == 9 &&
                       energon::as_text(start.payload) == "state" && start.descriptors.size() == 2;
    return right ? 21 : 1;
  });
  const Doorbell first;
  const Doorbell second;
  const WorkerProcess worker = server.spawn({.worker_id = 3,
                                             .generation = 9,
                                             .payload = energon::as_bytes("state"),
                                             .descriptors = {first.fd(), second.fd()}},
                                            hang_limit());
  CHECK(server.exit_of(worker, hang_limit()) == ProcessEnd{kExited, 21});
  CHECK(energon::any_ready(std::array{second.fd()}));
}

TEST_CASE_METHOD(ProcessFixture, "a payload of megabytes arrives whole",
                 "[process][fork_server][fork]") {
  std::vector<std::byte> payload(5'000'001);
  fill_payload(1, 2, payload);
  ForkServer server([](WorkerStart& start) {
    return start.payload.size() == 5'000'001 && payload_matches(1, 2, start.payload) ? 0 : 1;
  });
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    const WorkerProcess worker = server.spawn({.payload = payload}, hang_limit());
    CHECK(server.exit_of(worker, hang_limit()) == ProcessEnd{kExited, 0});
  }
}

TEST_CASE_METHOD(ProcessFixture, "the end of each worker is reported correctly",
                 "[process][fork_server][fork]") {
  ForkServer server([](WorkerStart& start) {
    switch (start.worker_id) {
      case 0:
        throw Error(ErrorCode::kInternal, "escapes");
      case 1:
        ::signal(SIGABRT, SIG_DFL);
        std::abort();
      default:
        return idle(start);
    }
  });
  const WorkerProcess thrower = server.spawn({.worker_id = 0}, hang_limit());
  const WorkerProcess aborter = server.spawn({.worker_id = 1}, hang_limit());
  const WorkerProcess victim = server.spawn({.worker_id = 2, .generation = 5}, hang_limit());
  CHECK_THROWS_WITH(server.exit_of(victim, energon::kNow), Catch::Contains("is still running"));
  victim.process.send_signal(SIGKILL);
  const ProcessEnd end = server.exit_of(victim, hang_limit());
  CHECK(end == ProcessEnd{kKilled, SIGKILL});
  CHECK(server.exit_of(aborter, hang_limit()) == ProcessEnd{kKilled, SIGABRT});
  CHECK(server.exit_of(thrower, hang_limit()) == ProcessEnd{kExited, energon::kExitException});
  CHECK_THAT(energon::worker_died(victim, end, "while decoding").what(),
             Catch::Contains("worker 2 (pid " + std::to_string(victim.process.pid())) &&
                 Catch::Contains("generation 5) killed by signal 9 (SIGKILL); while decoding"));
}

TEST_CASE_METHOD(ProcessFixture, "workers that died can be replaced many times",
                 "[process][fork_server][fork]") {
  ForkServer server(idle);
  for (std::uint64_t generation = 0; generation < 40; ++generation) {
    CAPTURE(generation);
    const WorkerProcess worker =
        server.spawn({.worker_id = 1, .generation = generation}, hang_limit());
    worker.process.send_signal(SIGKILL);
    REQUIRE(server.exit_of(worker, hang_limit()) == ProcessEnd{kKilled, SIGKILL});
  }
}

TEST_CASE_METHOD(ProcessFixture, "unqueried ends do not block the fork server",
                 "[process][fork_server][fork]") {
  ForkServer server([](WorkerStart&) { return 0; });
  std::optional<WorkerProcess> last;
  for (int i = 0; i < 100; ++i) {
    last = server.spawn({.worker_id = i}, hang_limit());
  }
  CHECK(server.exit_of(*last, hang_limit()) == ProcessEnd{kExited, 0});
}

TEST_CASE_METHOD(ProcessFixture, "stopping kills workers that hang, within its time",
                 "[process][fork_server][fork]") {
  bool in_time = false;
  for (int attempt = 0; attempt < 3 && !in_time; ++attempt) {  // the machine may have stalled
    CAPTURE(attempt);
    const energon::Deadline limit = energon::deadline_after(std::chrono::seconds(2));
    std::optional<WorkerProcess> stuck;
    {
      ForkServer server([](WorkerStart&) -> int { hang(); });
      stuck = server.spawn({}, hang_limit());
      CHECK_FALSE(stuck->process.ended());
    }
    in_time = std::chrono::steady_clock::now() < limit;
    CHECK(stuck->process.wait_ended(hang_limit()));
  }
  CHECK(in_time);
}

TEST_CASE_METHOD(ProcessFixture, "a huge grace is an endless wait, not none",
                 "[process][fork_server][fork]") {
  ForkServer server([](WorkerStart& start) {  // ends by itself, slightly late
    energon::wait_any({}, energon::deadline_after(std::chrono::milliseconds(300)));
    return start.worker_id;
  });
  const WorkerProcess worker = server.spawn({.worker_id = 5}, hang_limit());
  server.stop(std::chrono::milliseconds::max());
  CHECK(server.exit_of(worker, hang_limit()) == ProcessEnd{kExited, 5});
}

TEST_CASE_METHOD(ProcessFixture, "a killed fork server is an error, and its workers end",
                 "[process][fork_server][fork]") {
  ForkServer server([](WorkerStart& start) -> int {
    if (start.worker_id == 1) {
      hang();
    }
    return idle(start);
  });
  const WorkerProcess calm = server.spawn({.worker_id = 0}, hang_limit());
  const WorkerProcess hung = server.spawn({.worker_id = 1}, hang_limit());
  ::kill(server.pid(), SIGKILL);
  CHECK(eventually([&] { return calm.process.ended(); }, std::chrono::seconds(1)));
  CHECK(eventually([&] { return hung.process.ended(); }, std::chrono::seconds(1)));
  CHECK(eventually([&] { return !server.alive(); }));
  CHECK_THROWS_WITH(server.spawn({.worker_id = 7}, hang_limit()),
                    Catch::Contains("fork server is gone") && Catch::Contains("worker: 7"));
  CHECK(server.exit_of(calm, hang_limit()).kind == ProcessEnd::Kind::kUnknown);
}

TEST_CASE_METHOD(ProcessFixture,
                 "the error of a fork server that dies while starting a worker names the worker",
                 "[process][fork_server][fork]") {
  const pid_t trainer = ::getpid();
  ForkServer server(idle, {.hooks = {.before = [trainer] {
                             if (::getpid() != trainer) {
                               ::kill(::getpid(), SIGKILL);
                             }
                           }}});
  CHECK_THROWS_WITH(server.spawn({.worker_id = 7}, hang_limit()),
                    Catch::Contains("fork server is gone") && Catch::Contains("worker: 7"));
}

TEST_CASE_METHOD(ProcessFixture, "a stopped fork server delays no call beyond its deadline",
                 "[process][fork_server][fork]") {
  struct Interrupt {};
  const auto soon = [] { return energon::deadline_after(std::chrono::milliseconds(300)); };
  ForkServer server(idle);
  const WorkerProcess worker = server.spawn({.worker_id = 3}, hang_limit());
  REQUIRE(::kill(server.pid(), SIGSTOP) == 0);
  worker.process.send_signal(SIGKILL);
  REQUIRE(worker.process.wait_ended(hang_limit()));
  const std::string name = "fork server (pid " + std::to_string(server.pid()) + ")";
  const auto begin = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(server.exit_of(worker, soon()),
                    Catch::Contains(name + " did not report how") && Catch::Contains("worker: 3"));
  const Error death =
      server.death_of(worker, soon(), [](const ProcessEnd&) { return "it was idle"; });
  CHECK(death.code() == ErrorCode::kWorkerDied);
  CHECK_THAT(death.what(), Catch::Contains("it was idle; the " + name + " did not report how") &&
                               Catch::Contains("worker: 3"));
  CHECK_THROWS_WITH(server.spawn({.worker_id = 4}, soon()),
                    Catch::Contains(name) && Catch::Contains("worker: 4"));
  energon::WaitCheck check([] { throw Interrupt(); });
  CHECK_THROWS_AS(server.exit_of(worker, hang_limit(), &check), Interrupt);
  CHECK_THROWS_AS(server.death_of(worker, hang_limit(), {}, &check), Interrupt);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(8));  // was 10 s per call
  REQUIRE(::kill(server.pid(), SIGCONT) == 0);
  CHECK(server.exit_of(worker, hang_limit()) == ProcessEnd{kKilled, SIGKILL});
}

TEST_CASE_METHOD(ProcessFixture, "the end of a forgotten worker is ignored",
                 "[process][fork_server][fork]") {
  ForkServer server([](WorkerStart& start) { return start.worker_id; });
  for (int i = 0; i < 20; ++i) {
    server.forget(server.spawn({.worker_id = i}, hang_limit()));
  }
  const WorkerProcess last = server.spawn({.worker_id = 20}, hang_limit());
  CHECK(server.exit_of(last, hang_limit()) == ProcessEnd{kExited, 20});
  server.forget(last);
}

TEST_CASE_METHOD(ProcessFixture, "in a forked child the fork server is inert",
                 "[process][fork_server][fork]") {
  auto server = std::make_unique<ForkServer>(idle);
  const WorkerProcess worker = server->spawn({}, hang_limit());
  const ChildResult child = run_in_child([&] {
    const bool refused = code_of_spawn(*server) == ErrorCode::kCancelled;
    server.reset();
    return refused ? 0 : 1;
  });
  CHECK(child.exit_code == 0);
  CHECK_FALSE(worker.process.ended());
  worker.process.send_signal(SIGKILL);
  CHECK(server->exit_of(worker, hang_limit()) == ProcessEnd{kKilled, SIGKILL});
}

TEST_CASE_METHOD(ProcessFixture, "a fork server outlives the thread that made it",
                 "[process][fork_server][fork]") {
  std::unique_ptr<ForkServer> server;
  std::optional<WorkerProcess> worker;
  std::thread([&] {
    server = std::make_unique<ForkServer>(idle);
    worker = server->spawn({}, hang_limit());
  }).join();
  CHECK_FALSE(worker->process.wait_ended(energon::deadline_after(std::chrono::milliseconds(50))));
  CHECK(server->alive());
}

TEST_CASE_METHOD(ProcessFixture, "a host may ignore SIGCHLD or reap everything",
                 "[process][fork_server][fork]") {
  const auto use_a_server = [](bool reap) {
    std::atomic<bool> done{false};
    std::thread reaper([&] {
      while (reap && !done) {
        ::waitpid(-1, nullptr, WNOHANG);
      }
    });
    bool right = false;
    {
      ForkServer server(idle);
      const WorkerProcess worker = server.spawn({}, hang_limit());
      worker.process.send_signal(SIGKILL);
      right = server.exit_of(worker, hang_limit()) == ProcessEnd{kKilled, SIGKILL};
    }
    done = true;
    reaper.join();
    return right ? 0 : 1;
  };
  CHECK(run_in_child([&] {
          ::signal(SIGCHLD, SIG_IGN);
          return use_a_server(false);
        }).exit_code == 0);
  CHECK(run_in_child([&] { return use_a_server(true); }).exit_code == 0);
}

TEST_CASE_METHOD(ProcessFixture, "a worker starts clean: signals, descriptors, only our threads",
                 "[process][fork_server][fork]") {
  ::signal(SIGCHLD, [](int) {});
  std::array<int, 2> leaked{};  // not close-on-exec, like descriptors of foreign code
  REQUIRE(::pipe(leaked.data()) == 0);
  ForkServer server([](WorkerStart& start) {
    const auto has = [](int signal, void (*expected)(int)) {
      struct sigaction action {};
      return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == expected;
    };
    bool clean = has(SIGCHLD, SIG_DFL) && has(SIGALRM, SIG_DFL) && has(SIGSEGV, SIG_DFL);
    for (const int signal :
         {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ, SIGPIPE}) {
      clean = clean && has(signal, SIG_IGN);
    }
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    clean = clean && ::sigismember(&mask, SIGTERM) == 0 && ::sigismember(&mask, SIGCHLD) == 0;
    return clean ? idle(start) : 1;
  });
  const WorkerProcess worker = server.spawn({}, hang_limit());
  ::close(leaked[1]);
  // Hangs up: neither the fork server nor the worker holds the other end.
  CHECK(energon::ProcessHandle(0, energon::UniqueFd(::dup(leaked[0]))).wait_ended(hang_limit()));
  CHECK_FALSE(worker.process.wait_ended(energon::deadline_after(std::chrono::milliseconds(20))));
  ::close(leaked[0]);
  ::signal(SIGCHLD, SIG_DFL);
}

TEST_CASE_METHOD(ProcessFixture, "without descriptors left, errors name the limit",
                 "[process][fork_server][fork]") {
  const auto with_limit = [](rlim_t descriptors) {
    return run_in_child([descriptors] {
      const rlimit limit{descriptors, descriptors};
      ::setrlimit(RLIMIT_NOFILE, &limit);
      try {
        ForkServer server(idle);
        std::vector<WorkerProcess> workers;
        for (int i = 0; i < 64; ++i) {
          workers.push_back(server.spawn({.worker_id = i}, hang_limit()));
        }
      } catch (const Error& error) {
        const std::string text = error.what();
        return text.find("ulimit -n") != std::string::npos ? 0 : 1;
      }
      return 2;
    });
  };
  if (ENERGON_ADDRESS_SANITIZER) {
    return skip_case("the sanitizer needs descriptors to look at memory");
  }
  for (const rlim_t descriptors : {4U, 6U, 8U, 10U, 12U, 20U}) {
    CAPTURE(descriptors);
    CHECK(with_limit(descriptors).exit_code == 0);
  }
}

TEST_CASE_METHOD(ProcessFixture, "without processes left, spawning fails with a clear error",
                 "[process][fork_server][fork]") {
  const ChildResult child = run_in_child([] {
    if (::setuid(65534) != 0) {  // root is not limited
      return 77;
    }
    ForkServer server(idle);
    const rlimit limit{1, 1};
    if (::prlimit(server.pid(), RLIMIT_NPROC, &limit, nullptr) != 0) {
      return 77;
    }
    try {
      server.spawn({.worker_id = 4}, hang_limit());
    } catch (const Error& error) {
      const std::string text = error.what();
      return error.code() == ErrorCode::kResourceExhausted &&
                     text.find("ulimit -u") != std::string::npos && error.context().worker == 4
                 ? 0
                 : 1;
    }
    return 2;
  });
  if (child.exit_code == 77) {
    return skip_case("not permitted to change the user or its limits");
  }
  CHECK(child.exit_code == 0);
}

TEST_CASE_METHOD(ProcessFixture, "when the parent executes another program, everything ends",
                 "[process][fork_server][fork]") {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const auto shared = SharedMemory::create(4096);
  auto* pids = reinterpret_cast<std::atomic<pid_t>*>(shared->data());
  const pid_t parent = ::fork();
  if (parent == 0) {
    ForkServer server(idle);
    const WorkerProcess worker = server.spawn({}, hang_limit());
    pids[0] = server.pid();
    pids[1] = worker.process.pid();
    while (pids[2] == 0) {  // until the test holds their pidfds
    }
    ::execl("/bin/sleep", "sleep", "30", nullptr);
    ::_exit(1);
  }
  CHECK(eventually([&] { return pids[1] != 0; }));
  const auto server = energon::ProcessHandle::open(pids[0]);
  const auto worker = energon::ProcessHandle::open(pids[1]);
  pids[2] = 1;
  CHECK(server.wait_ended(hang_limit()));
  CHECK(worker.wait_ended(hang_limit()));
  CHECK(::waitpid(parent, nullptr, WNOHANG) == 0);
  ::kill(parent, SIGKILL);
  CHECK(eventually([] { return no_children(true); }));
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}
