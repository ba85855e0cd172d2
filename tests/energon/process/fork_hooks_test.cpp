#include "energon/process/fork_hooks.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/process/fork.h"
#include "energon/process/fork_server.h"
#include "energon/process/shared_memory.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/refused_call.h"
#include "tests/support/sanitizer.h"
#include "tests/support/skip.h"

using energon::Error;
using energon::ErrorCode;
using energon::fork_child;
using energon::ForkHooks;
using energon::ForkServer;
using energon::ProcessEnd;
using energon::SharedMemory;
using energon::WorkerProcess;
using energon::WorkerStart;
using namespace energon::testing;

namespace {

/// The events of all processes, in shared memory, so that all of them can write.
class EventLog {
 public:
  void add(char event) const {
    const std::uint32_t i = page().next++;
    page().entries[i] = {::getpid(), event};
  }
  /// The events of one process, in order.
  std::string of(pid_t pid) const {
    std::string events;
    for (std::uint32_t i = 0; i < page().next; ++i) {
      if (page().entries[i].pid == pid) {
        events += page().entries[i].event;
      }
    }
    return events;
  }
  std::string all() const {
    std::string events;
    for (std::uint32_t i = 0; i < page().next; ++i) {
      events += page().entries[i].event;
    }
    return events;
  }
  ForkHooks hooks() const {
    return {.before = [log = *this] { log.add('b'); },
            .parent = [log = *this] { log.add('p'); },
            .child = [log = *this] { log.add('c'); }};
  }

 private:
  struct Entry {
    pid_t pid;
    char event;
  };
  struct Page {
    std::atomic<std::uint32_t> next;
    std::array<Entry, 400> entries;
  };
  Page& page() const { return *reinterpret_cast<Page*>(memory_->data()); }

  std::shared_ptr<SharedMemory> memory_ = SharedMemory::create(sizeof(Page));
};

constexpr auto kHooksExited = ProcessEnd::Kind::kExited;

ProcessEnd end_of(const energon::ProcessHandle& child) {
  REQUIRE(child.wait_ended(hang_limit()));
  return *child.reap();
}

}  // namespace

TEST_CASE_METHOD(ProcessFixture, "fork hooks run around both forks, in their order",
                 "[process][fork_hooks][fork]") {
  const EventLog log;
  ForkServer server(
      [log](WorkerStart&) {
        log.add('w');
        return 0;
      },
      {.hooks = log.hooks()});
  CHECK(log.of(::getpid()) == "bp");
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    const WorkerProcess worker = server.spawn({.worker_id = i}, hang_limit());
    CHECK(server.exit_of(worker, hang_limit()) == ProcessEnd{kHooksExited, 0});
    CHECK(log.of(worker.process.pid()) == "cw");
  }
  CHECK(log.of(server.pid()) == "cbpbp");
  CHECK(log.of(::getpid()) == "bp");
}

TEST_CASE_METHOD(ProcessFixture, "the child hook sees the same signals and descriptors as the body",
                 "[process][fork_hooks][fork]") {
  std::array<int, 2> foreign{};
  REQUIRE(::pipe(foreign.data()) == 0);
  const EventLog log;
  ForkHooks hooks;
  hooks.child = [log, fd = foreign[1]] {
    struct sigaction action {};
    ::sigaction(SIGTERM, nullptr, &action);
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    const bool is_set = action.sa_handler == SIG_IGN && ::sigismember(&mask, SIGTERM) == 0;
    log.add(is_set && ::write(fd, "x", 1) < 0 && errno == EBADF ? 'y' : 'n');
  };
  const auto child = fork_child(
      [log] {
        log.add('w');
        return 5;
      },
      {.hooks = hooks});
  CHECK(end_of(child) == ProcessEnd{kHooksExited, 5});
  CHECK(log.all() == "yw");
  ::close(foreign[0]);
  ::close(foreign[1]);
}

TEST_CASE_METHOD(ProcessFixture, "a fork that fails calls the parent hook, too",
                 "[process][fork_hooks][fork]") {
  if (ENERGON_ADDRESS_SANITIZER) {
    return skip_case("the check for leaks starts a thread, which the child is refused");
  }
  const EventLog log;
  const ChildResult child = run_in_child([&] {
    if (!refuse_system_call(SYS_clone, EAGAIN) || !refuse_system_call(SYS_clone3, ENOSYS)) {
      return 77;
    }
    try {
      fork_child([] { return 0; }, {.hooks = log.hooks()});
    } catch (const Error& error) {
      return error.code() == ErrorCode::kResourceExhausted ? 0 : 1;
    }
    return 2;
  });
  if (child.exit_code == 77) {
    return skip_case("the machine permits no filters");
  }
  CHECK(child.exit_code == 0);
  CHECK(log.all() == "bp");
}

TEST_CASE_METHOD(ProcessFixture, "a hook that throws leaves no child",
                 "[process][fork_hooks][fork]") {
  const EventLog log;
  ForkHooks hooks = log.hooks();
  const auto body = [log] {
    log.add('w');
    energon::wait_any({}, energon::deadline_after(std::chrono::minutes(5)));
    return 0;
  };
  SECTION("before: the fork does not happen") {
    hooks.before = [] { throw std::runtime_error("before"); };
    CHECK_THROWS_WITH(fork_child(body, {.hooks = hooks}), "before");
    CHECK(log.all().empty());
  }
  SECTION("parent: the child is killed") {
    hooks.parent = [] { throw std::runtime_error("parent"); };
    CHECK_THROWS_WITH(fork_child(body, {.hooks = hooks}), "parent");
  }
  SECTION("child: it ends with its own code") {
    hooks.child = [] { throw std::runtime_error("child"); };
    CHECK(end_of(fork_child(body, {.hooks = hooks})) ==
          ProcessEnd{kHooksExited, energon::kExitException});
    CHECK(log.all() == "bp");
  }
  CHECK(no_children());
}

TEST_CASE_METHOD(ProcessFixture,
                 "an exception of a hook in the fork server fails one spawn, not the rest",
                 "[process][fork_hooks][fork]") {
  const pid_t trainer = ::getpid();
  const auto server_that_throws = [trainer](const auto& thrown) {
    // At the second worker.
    const auto hook = [trainer, thrown, calls = std::make_shared<int>(0)] {
      if (::getpid() != trainer && ++*calls == 2) {
        throw thrown;
      }
    };
    return std::make_unique<ForkServer>([](WorkerStart& start) { return start.worker_id; },
                                        energon::ForkServerOptions{.hooks = {.before = hook}});
  };
  const auto check = [](ForkServer& server, ErrorCode code, const std::string& text) {
    for (const int id : {5, 6}) {
      const WorkerProcess worker = server.spawn({.worker_id = id}, hang_limit());
      CHECK(server.exit_of(worker, hang_limit()) == ProcessEnd{kHooksExited, id});
      if (id == 6) {
        break;
      }
      try {
        server.spawn({.worker_id = 9}, hang_limit());
        FAIL_CHECK("nothing was thrown");
      } catch (const Error& error) {
        CHECK(error.code() == code);
        CHECK_THAT(error.what(), Catch::Contains("cannot start a worker process: " + text));
        CHECK(error.context().worker == 9);
      }
    }
  };
  check(*server_that_throws(std::runtime_error("no lock")), ErrorCode::kUserFunction,
        "a fork hook failed: no lock");
  check(*server_that_throws(std::bad_alloc()), ErrorCode::kResourceExhausted, "a fork hook failed");
  check(*server_that_throws(7), ErrorCode::kUserFunction, "a fork hook threw");
  check(*server_that_throws(Error(ErrorCode::kNotFound, "no file", {.path = "/a"})),
        ErrorCode::kNotFound, "no file [path: /a, ");
}

TEST_CASE_METHOD(ProcessFixture, "descriptors of the hooks are kept in both children",
                 "[process][fork_hooks][fork]") {
  std::array<int, 2> kept{};
  REQUIRE(::pipe(kept.data()) == 0);
  // A closed descriptor is harmless.
  const ForkHooks hooks{.child = [fd = kept[1]] { static_cast<void>(::write(fd, "c", 1) == 1); },
                        .keep_descriptors = {kept[1], 9999}};
  ForkServer server([fd = kept[1]](WorkerStart&) { return ::write(fd, "w", 1) == 1 ? 0 : 1; },
                    {.hooks = hooks});
  const WorkerProcess worker = server.spawn({}, hang_limit());
  CHECK(server.exit_of(worker, hang_limit()) == ProcessEnd{kHooksExited, 0});
  std::array<char, 8> text{};
  CHECK(::read(kept[0], text.data(), text.size()) == 3);
  CHECK(std::string(text.data()) == "ccw");
  ::close(kept[0]);
  ::close(kept[1]);
}

TEST_CASE_METHOD(ProcessFixture,
                 "with hooks, a worker may take a lock that threads hold all the time",
                 "[process][fork_hooks][fork]") {
  static std::mutex mutex;  // a lock of the user, in any state at the fork
  const ForkHooks hooks{.before = [] { mutex.lock(); },
                        .parent = [] { mutex.unlock(); },
                        .child = [] { mutex.unlock(); }};
  std::atomic<int> running{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&running](const std::stop_token& stop) {
      for (bool is_first = true; !stop.stop_requested(); is_first = false) {
        const std::lock_guard lock(mutex);
        running += is_first ? 1 : 0;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
  }
  REQUIRE(eventually([&] { return running == 4; }));
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    ForkServer server(
        [](WorkerStart&) {
          const std::lock_guard lock(mutex);
          return 0;
        },
        {.hooks = hooks});
    const WorkerProcess worker = server.spawn({}, hang_limit());
    REQUIRE(server.exit_of(worker, hang_limit()) == ProcessEnd{kHooksExited, 0});
  }
}
