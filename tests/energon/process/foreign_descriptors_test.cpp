#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/process/fork.h"
#include "energon/process/fork_server.h"
#include "energon/process/shared_memory.h"
#include "io/file.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/refused_call.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using energon::fork_child;
using energon::ForkServer;
using energon::ProcessEnd;
using energon::UniqueFd;
using energon::WorkerProcess;
using energon::WorkerStart;
using namespace energon::testing;

namespace {

constexpr auto kChildExited = ProcessEnd::Kind::kExited;

UniqueFd checked(int fd) {
  REQUIRE(fd >= 0);
  return UniqueFd(fd);
}

/// A file of a tmpfs has seals like a memfd, and this one has no name, either.
UniqueFd deleted_file(const std::string& folder) {
  std::string name = folder + "/energon-test-XXXXXX";
  UniqueFd file = checked(::mkostemp(name.data(), O_CLOEXEC));
  ::unlink(name.c_str());
  REQUIRE(::write(file.get(), "content", 7) == 7);
  return file;
}

/// One descriptor of each kind that a program may have.
struct Zoo {
  Zoo() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    foreign.emplace_back(ends[0]);
    foreign.emplace_back(ends[1]);
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
    foreign.emplace_back(ends[0]);
    foreign.emplace_back(ends[1]);
    foreign.push_back(checked(::socket(AF_INET, SOCK_STREAM, 0)));
    foreign.push_back(checked(::eventfd(0, EFD_NONBLOCK)));
    foreign.push_back(checked(::epoll_create1(0)));
    foreign.push_back(checked(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)));
    foreign.push_back(checked(::open("/dev/null", O_RDWR)));
    foreign.push_back(checked(::memfd_create("foreign", MFD_CLOEXEC)));
    foreign.push_back(checked(::memfd_create("energon", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
    foreign.push_back(checked(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))));
    foreign.push_back(checked(::dup2(foreign[0].get(), 700)));
    files.push_back(deleted_file(folder.path()));
    if (std::filesystem::exists("/dev/shm")) {
      files.push_back(deleted_file("/dev/shm"));
    }
    folders.push_back(checked(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY)));
  }

  TempDir folder;
  std::vector<UniqueFd> foreign;
  std::vector<UniqueFd> files;
  std::vector<UniqueFd> folders;
};

bool is_placeholder(int fd) {
  char byte = 'x';
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_PATH) != 0 && ::write(fd, &byte, 1) < 0 && errno == EBADF &&
         ::read(fd, &byte, 1) < 0 && errno == EBADF && ::lseek(fd, 0, SEEK_SET) < 0 &&
         errno == EBADF;
}

/// The number of the first descriptor that is wrong, or 0.
int first_wrong(const Zoo& zoo) {
  for (const UniqueFd& fd : zoo.foreign) {
    if (!is_placeholder(fd.get())) {
      return fd.get() % 256;
    }
  }
  for (const UniqueFd& fd : zoo.files) {
    std::array<char, 7> text{};
    if (::pread(fd.get(), text.data(), text.size(), 0) != 7 ||
        std::string_view(text.data(), 7) != "content") {
      return fd.get() % 256;
    }
  }
  for (const UniqueFd& fd : zoo.folders) {
    if ((::fcntl(fd.get(), F_GETFL) & O_PATH) != 0) {
      return fd.get() % 256;
    }
  }
  return 0;
}

int code_in_fork_child(const std::function<int()>& body) {
  const auto child = fork_child(body, {});
  child.wait_ended(hang_limit());
  const ProcessEnd end = *child.reap();
  return end.kind == kChildExited ? end.value : -1;
}

/// Whether `fd` is at its end within `limit`.
bool hangs_up(int fd, std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  std::array<energon::Waitable, 1> waitables{{{fd}}};
  char byte = 0;
  return energon::wait_any(waitables, energon::deadline_after(limit)) && ::read(fd, &byte, 1) == 0;
}

}  // namespace

TEST_CASE_METHOD(ProcessFixture,
                 "fork server and worker have placeholders over foreign descriptors",
                 "[process][foreign][fork]") {
  const Zoo zoo;
  CHECK(code_in_fork_child([&] { return first_wrong(zoo); }) == 0);
  ForkServer server([&](WorkerStart&) { return first_wrong(zoo); });
  const WorkerProcess worker = server.spawn({}, hang_limit());
  CHECK(server.exit_of(worker, hang_limit()) == ProcessEnd{kChildExited, 0});
  CHECK_FALSE(is_placeholder(zoo.foreign[0].get()));  // in the trainer, nothing changed
}

TEST_CASE_METHOD(ProcessFixture, "the number of a foreign descriptor stays taken",
                 "[process][foreign][fork]") {
  const Zoo zoo;
  CHECK(code_in_fork_child([&] {
          for (int i = 0; i < 50; ++i) {
            const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
            for (const UniqueFd& foreign : zoo.foreign) {
              if (fd == foreign.get()) {
                return 1;
              }
            }
          }
          return 0;
        }) == 0);
}

TEST_CASE_METHOD(ProcessFixture, "peers see the end while a worker lives",
                 "[process][foreign][fork]") {
  std::array<int, 2> pipe{};
  std::array<int, 2> sockets{};
  REQUIRE(::pipe(pipe.data()) == 0);
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()) == 0);
  const UniqueFd reader(pipe[0]);
  UniqueFd writer(pipe[1]);
  const UniqueFd here(sockets[0]);
  UniqueFd there(sockets[1]);
  ForkServer server([](WorkerStart& start) {
    energon::any_ready(start.watch->descriptors());
    energon::wait_any({}, energon::deadline_after(std::chrono::minutes(5)));
    return 0;
  });
  const WorkerProcess worker = server.spawn({}, hang_limit());
  CHECK_FALSE(hangs_up(reader.get(), std::chrono::milliseconds(20)));
  writer.reset();
  there.reset();
  CHECK(hangs_up(reader.get()));
  CHECK(hangs_up(here.get()));
  CHECK_FALSE(worker.process.ended());
}

TEST_CASE_METHOD(ProcessFixture, "without a list of descriptors they are found one by one",
                 "[process][foreign][fork]") {
  const Zoo zoo;
  const ChildResult child = run_in_child([&] {
    if (!refuse_system_call(SYS_getdents64, EPERM)) {
      return 255;
    }
    return code_in_fork_child([&] { return first_wrong(zoo); });
  });
  if (child.exit_code == 255) {
    return skip_case("the machine permits no filters");
  }
  CHECK(child.exit_code == 0);
}

TEST_CASE_METHOD(ProcessFixture, "descriptors above a limit that was lowered are closed",
                 "[process][foreign][fork]") {
  const Zoo zoo;
  const ChildResult child = run_in_child([&] {
    const rlimit limit{300, 300};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    return code_in_fork_child([&] { return ::fcntl(700, F_GETFD) < 0 ? 7 : 1; });
  });
  CHECK(child.exit_code == 7);
}

TEST_CASE_METHOD(ProcessFixture, "a child at its descriptor limit replaces the inherited ones",
                 "[process][foreign][fork]") {
  const ChildResult child = run_in_child([] {
    const rlimit limit{64, 64};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    std::vector<int> taken;
    for (int fd = ::eventfd(0, 0); fd >= 0; fd = ::eventfd(0, 0)) {
      taken.push_back(fd);
    }
    for (int i = 0; i < 3; ++i) {  // two for the fork, and one for the handle of the child
      ::close(taken.back());
      taken.pop_back();
    }
    return code_in_fork_child([&] {
      for (const int fd : taken) {
        if (!is_placeholder(fd)) {
          return fd;
        }
      }
      return 0;
    });
  });
  CHECK(child.exit_code == 0);
}
