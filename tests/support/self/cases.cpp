// Cases for each way in which a case can end; check_exit_codes.sh runs them.

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/support/skip.h"

using energon::testing::skip_case;

TEST_CASE("passes") { SUCCEED(); }

TEST_CASE("is skipped") { return skip_case("its data is missing"); }

TEST_CASE("fails after it was skipped") {
  skip_case("its data is missing");
  CHECK(false);
}

TEST_CASE("fails 77 times") {
  for (int i = 0; i < 77; ++i) {
    CHECK(i < 0);
  }
}

namespace {

void fork_once() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(0);
  }
  REQUIRE(::waitpid(pid, nullptr, 0) == pid);
}

}  // namespace

TEST_CASE("forks untagged") { fork_once(); }

TEST_CASE("forks", "[fork]") { fork_once(); }
