// The collectives over forked processes: the bytes that arrive, and errors if a rank does not take
// part.

#include "energon/distributed/comm.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>

#include <catch2/catch.hpp>

#include "energon/process/wait.h"
#include "io/error.h"
#include "io/file.h"
#include "tests/energon/distributed/forked_group.h"

using energon::Comm;
using energon::CommOptions;
using energon::SingleProcessComm;
using energon::testing::exercise;
using energon::testing::expected_exercise;
using energon::testing::RankReport;
using energon::testing::run_group;
using energon::testing::texts;

TEST_CASE("one process is a group", "[distributed]") {
  SingleProcessComm comm;
  CHECK(exercise(comm) == "r0 r0 0>0 own r0");
  CHECK_THROWS_WITH(comm.broadcast("x", 1), Catch::Contains("rank 1 does not exist"));
}

TEST_CASE("each collective gives each rank its bytes", "[distributed][fork]") {
  CHECK(expected_exercise(0, 2) == "r0 r0+r1 0>0 own r1  1>0 1>0 r0+r1");
  CHECK(expected_exercise(1, 2) == "r0  0>1 0>1 r1 r0+r1 1>1 own r0+r1");
  for (const int size : {2, 3, 4, 5, 12}) {
    CAPTURE(size);
    const auto reports = run_group(size, exercise);
    for (int rank = 0; rank < size; ++rank) {
      CAPTURE(rank);
      CHECK(reports[static_cast<std::size_t>(rank)].text == expected_exercise(rank, size));
    }
  }
}

TEST_CASE("bytes of many sizes arrive complete", "[distributed][fork]") {
  const auto reports = run_group(3, [](Comm& comm) {
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{300'000}, std::size_t{5'000'000}}) {
      const std::string mine(size, static_cast<char>('a' + comm.rank()));
      if (comm.broadcast(mine, 1) != std::string(size, 'b')) {
        return std::string("broadcast");
      }
      const auto all = comm.all_gather(mine.substr(0, size / 2));
      if (all[2] != std::string(size / 2, 'c') || all.size() != 3) {
        return std::string("all_gather");
      }
    }
    return std::string("whole");
  });
  CHECK(texts(reports) == std::vector<std::string>(3, "whole"));
}

TEST_CASE("a rank that dies ends the others' calls at once, by name", "[distributed][fork]") {
  for (const int size : {2, 3, 4}) {
    CAPTURE(size);
    const auto reports = run_group(size, [](Comm& comm) -> std::string {
      comm.barrier();
      if (comm.rank() == 1) {
        ::kill(::getpid(), SIGKILL);
      }
      comm.gather("state", 0);
      comm.barrier();
      return "not reached";
    });
    CHECK(reports[1].signal == SIGKILL);
    CHECK_THAT(reports[0].text, Catch::Contains("error worker_died") &&
                                    Catch::Contains("gather to rank 0") &&
                                    Catch::Contains("rank 1 is gone"));
    for (const RankReport& report : reports) {
      CAPTURE(report.text);
      CHECK(report.text != "not reached");
      CHECK(report.took < std::chrono::seconds(10));
    }
  }
}

TEST_CASE("a rank that hangs ends the others' calls after the timeout, by name",
          "[distributed][fork]") {
  const energon::UniqueFd seen(::eventfd(0, EFD_CLOEXEC));
  const auto hang = [&](Comm& comm) -> std::string {
    if (comm.rank() == 1) {
      // The first rank that rank 0 waits for. It lives until rank 0 has given up, without taking
      // part.
      energon::Waitable waitable{.fd = seen.get()};
      return wait_any(std::span(&waitable, 1), energon::deadline_after(std::chrono::seconds(30)))
                 ? "released"
                 : "never";
    }
    try {
      comm.gather("", 0);
      comm.barrier();
    } catch (const energon::Error& error) {
      if (comm.rank() == 0) {
        ::eventfd_write(seen.get(), 1);
      }
      throw;
    }
    return "not reached";
  };
  const auto reports = run_group(3, hang, {.timeout = std::chrono::milliseconds(300)});
  CHECK_THAT(reports[0].text,
             Catch::Contains("error timeout") && Catch::Contains("rank 1 did not answer"));
  CHECK(reports[1].text == "released");
  CHECK_THAT(reports[2].text, Catch::StartsWith("error "));
}

TEST_CASE("ranks that make different calls get an error, not each other's bytes",
          "[distributed][fork]") {
  const auto reports = run_group(2, [](Comm& comm) -> std::string {
    if (comm.rank() == 0) {
      comm.gather("", 0);
    } else {
      comm.broadcast("x", 1);
    }
    return "not reached";
  });
  CHECK_THAT(reports[0].text,
             Catch::Contains("error mismatch") && Catch::Contains("rank 1 is in call 1") &&
                 Catch::Contains("a broadcast") && Catch::Contains("same calls in the same order"));
}

TEST_CASE("after an error every further call repeats it", "[distributed][fork]") {
  const auto reports = run_group(2, [](Comm& comm) -> std::string {
    if (comm.rank() == 1) {
      return "left";
    }
    std::string first;
    std::string second;
    try {
      comm.barrier();
    } catch (const energon::Error& error) {
      first = error.what();
    }
    try {
      comm.broadcast("x", 0);
    } catch (const energon::Error& error) {
      second = error.what();
    }
    return first == second && !first.empty() ? "repeated" : first + " / " + second;
  });
  CHECK(texts(reports) == std::vector<std::string>{"repeated", "left"});
}

TEST_CASE("options and ranks out of range are refused", "[distributed]") {
  CHECK_THROWS_WITH(validate(CommOptions{.timeout = std::chrono::milliseconds(0)}),
                    Catch::Contains("timeout is 0 ms"));
}
