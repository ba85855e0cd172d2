// A fork server that does not answer (stopped, swapped out) delays no error, interrupt or close().

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"

namespace {

using energon::Error;
using energon::ErrorCode;
using energon::LoaderOptions;
using energon::SavableDataLoader;
using energon::testing::LoaderFixture;
using energon::testing::ProcessFixture;
using energon::testing::take;
using Clock = std::chrono::steady_clock;

struct Interruption {};

pid_t parent_pid_of(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  pid_t parent = 0;
  for (std::string word; status >> word;) {
    if (word == "PPid:") {
      status >> parent;
      break;
    }
  }
  return parent;
}

// Stops the fork server and kills worker 0. The fork server is killed with the loader.
pid_t stop_fork_server(SavableDataLoader& loader) {
  take(loader, 3);
  const int victim = loader.worker_pids().at(0);
  const pid_t server = parent_pid_of(victim);
  REQUIRE(server > 0);
  REQUIRE(::kill(server, SIGSTOP) == 0);
  REQUIRE(::kill(victim, SIGKILL) == 0);
  return server;
}

// Takes the batches that were ready before the death.
template <class Loader>
std::optional<Error> first_error_of(Loader& loader) {
  for (int i = 0; i < 10'000; ++i) {
    try {
      loader.next();
    } catch (const Error& error) {
      return error;
    }
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE_METHOD(ProcessFixture, "a death is reported although the fork server is stopped",
                 "[loader][stopped_fork_server][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  const auto loader = fixture.loader(4);
  const pid_t server = stop_fork_server(*loader);
  const auto begin = Clock::now();
  const std::optional<Error> error = first_error_of(*loader);
  REQUIRE(error);
  CHECK(Clock::now() - begin < std::chrono::seconds(8));  // was 51 s
  CHECK(error->code() == ErrorCode::kWorkerDied);
  CHECK_THAT(error->what(), Catch::Contains("worker 0 (pid ") &&
                                Catch::Contains("the fork server (pid " + std::to_string(server) +
                                                ") did not report how in time"));
  CHECK(loader->save_state_rank().batch_index >= 3);
}

TEST_CASE_METHOD(ProcessFixture, "an interrupt is noticed although the fork server is stopped",
                 "[loader][stopped_fork_server][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  std::optional<Clock::time_point> due;
  const auto loader = fixture.loader(2, {.wait_check = [&due] {
                                       if (due && Clock::now() > *due) {
                                         throw Interruption();
                                       }
                                     }});
  stop_fork_server(*loader);
  due = Clock::now() + std::chrono::milliseconds(300);
  CHECK_THROWS_AS(first_error_of(*loader), Interruption);
  CHECK(Clock::now() - *due < std::chrono::milliseconds(1500));  // was 30 s; the report takes 2 s
}

TEST_CASE_METHOD(ProcessFixture, "close() does not wait for a stopped fork server",
                 "[loader][stopped_fork_server][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  const auto loader = fixture.loader(4);
  stop_fork_server(*loader);
  const auto begin = Clock::now();
  SECTION("by the thread itself") { loader->close(); }
  SECTION("by another thread, while next() waits for the report of a death") {
    std::jthread closing([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      loader->close();
    });
    const std::optional<Error> error = first_error_of(*loader);
    REQUIRE(error);
    CHECK(error->code() == ErrorCode::kCancelled);
  }
  CHECK(Clock::now() - begin < std::chrono::seconds(6));  // was 21 s
}
