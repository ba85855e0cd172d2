#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include <catch2/catch.hpp>

#include "io/file.h"
#include "tests/support/error_of.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_dir.h"

using energon::as_bytes;
using energon::ErrorCode;
using energon::UniqueFd;
using energon::testing::error_of;
using energon::testing::FileSizeLimit;
using energon::testing::TempDir;

namespace {

bool is_pending_or_blocked(int signal) {
  sigset_t pending;
  sigset_t blocked;
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return ::sigismember(&pending, signal) == 1 || ::sigismember(&blocked, signal) == 1;
}

}  // namespace

TEST_CASE("the file size limit of the process is an error, not a signal", "[io][write_all]") {
  const TempDir folder;
  const std::string path = folder.write("a", "old");
  {
    const FileSizeLimit limit(1000);
    const std::string message =
        error_of([&] { energon::write_file_atomically(path, as_bytes(std::string(5000, 'x'))); },
                 ErrorCode::kIo);
    CHECK_THAT(message, Catch::Contains("File too large") && Catch::Contains("ulimit -f"));
  }
  CHECK(energon::read_file(path) == "old");
  CHECK_FALSE(is_pending_or_blocked(SIGXFSZ));
}

TEST_CASE("a pipe without a reader is an error, not a signal", "[io][write_all]") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd writer(ends[1]);
  UniqueFd(ends[0]).reset();
  auto* const before = ::signal(SIGPIPE, SIG_DFL);
  CHECK(energon::try_write_all(writer.get(), as_bytes("x")) == EPIPE);
  CHECK_FALSE(is_pending_or_blocked(SIGPIPE));
  ::signal(SIGPIPE, before);
}

TEST_CASE("a file that is replaced keeps its permissions", "[io][write_all]") {
  const TempDir folder;
  const std::string path = folder.write("a", "secret");
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  energon::write_file_atomically(path, as_bytes("new"));
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}
