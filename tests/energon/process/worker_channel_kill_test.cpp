// Workers that are killed: committed units are kept, and the parent notices and continues.

#include <csignal>

#include <catch2/catch.hpp>

#include "tests/energon/process/channel_fixture.h"
#include "tests/support/skip.h"

using energon::as_text;
using energon::FailAction;
using energon::ForkServer;
using energon::RingStatus;
using energon::WorkerEndpoint;
using energon::WorkerStart;
using namespace energon::testing;

TEST_CASE_METHOD(ProcessFixture, "a worker killed at any protocol state loses nothing committed",
                 "[process][channel][kill][fork]") {
  if (!energon::has_fail_points()) {
    return skip_case("built without fail points");
  }
  for (const char* site : {"worker.init", "arena.acquire", "slot.write", "ring.before_publish",
                           "ring.after_publish", "checkpoint.half_written", "waiting.for_space"}) {
    for (const std::uint64_t nth : {1U, 2U, 7U, 30U}) {
      CAPTURE(site, nth);
      if (site == std::string("worker.init")) {
        energon::arm_fail_point(site, FailAction::kKill, 1);  // inherited; not passed in the parent
      }
      ForkServer server([site, nth](WorkerStart& start) {
        return run_worker(start, site, FailAction::kKill, nth);
      });
      energon::disarm_fail_point();
      RunningWorker running(server, 2, nth);
      if (site == std::string("waiting.for_space") && nth == 1) {
        running.worker.process.wait_ended(hang_limit());  // blocked on the full ring when it dies
      }
      const RingStatus status = running.drain();
      if (site == std::string("waiting.for_space") && status == RingStatus::kClosed) {
        continue;  // a fast consumer, for which it never waited this often
      }
      REQUIRE(status == RingStatus::kPeerDied);
      const std::uint64_t unreported = site == std::string("ring.after_publish") ? 1 : 0;
      CHECK(running.received == running.channel.status().progress_count() + unreported);
      CHECK_THAT(
          energon::worker_died(running.worker, server.exit_of(running.worker, hang_limit())).what(),
          Catch::Contains("worker 2 (pid " + std::to_string(running.worker.process.pid())) &&
              Catch::Contains("signal 9 (SIGKILL)"));
      CHECK(running.drain() == RingStatus::kPeerDied);  // again, not a hang
      const auto checkpoint = running.channel.checkpoints().newest_not_after(running.received);
      if (running.received > 8) {
        REQUIRE(checkpoint);
        CHECK(checkpoint->index + 8 >= running.received);
      }
    }
  }
}

TEST_CASE_METHOD(ProcessFixture, "a worker killed between a command and its answer is noticed",
                 "[process][channel][kill][fork]") {
  if (!energon::has_fail_points()) {
    return skip_case("built without fail points");
  }
  ForkServer server([](WorkerStart& start) {
    return run_worker(start, "command.received", FailAction::kKill, 3);
  });
  RunningWorker running(server, 0);
  int answers = 0;
  for (int i = 0; i < 1000; ++i) {
    if (send_command(running.channel, "status", running.wait()) != RingStatus::kItem ||
        running.channel.results().read(running.wait()).status != RingStatus::kItem) {
      break;
    }
    running.channel.results().release();
    ++answers;
  }
  CHECK(answers == 2);
  CHECK(server.exit_of(running.worker, hang_limit()).value == SIGKILL);
}

TEST_CASE_METHOD(ProcessFixture, "the parent can continue after a worker is killed while idle",
                 "[process][channel][kill][fork]") {
  ForkServer server([](WorkerStart& start) {
    WorkerEndpoint worker(std::move(start.descriptors));
    echo_commands(worker, {energon::kNever, start.watch->descriptors()});
    return 0;
  });
  RunningWorker running(server, 0);
  running.worker.process.send_signal(SIGKILL);
  RingStatus status = RingStatus::kItem;
  for (int i = 0; i < 1000 && status == RingStatus::kItem; ++i) {
    status = send_command(running.channel, "status", running.wait());
  }
  CHECK(status == RingStatus::kPeerDied);  // the command ring became full
  RunningWorker next(server, 0, 1);
  CHECK(send_command(next.channel, "status", next.wait()) == RingStatus::kItem);
  CHECK(as_text(next.channel.results().read(next.wait()).bytes) == "status");
}

TEST_CASE_METHOD(ProcessFixture, "death is noticed within 100 ms",
                 "[process][channel][kill][fork]") {
  ForkServer server([](WorkerStart& start) {
    WorkerEndpoint worker(std::move(start.descriptors));
    echo_commands(worker, {energon::kNever, start.watch->descriptors()});
    return 0;
  });
  auto fastest = std::chrono::steady_clock::duration::max();
  for (std::uint64_t i = 0; i < 10; ++i) {
    CAPTURE(i);
    RunningWorker running(server, 0, i);
    send_command(running.channel, "hello", running.wait());
    running.channel.results().read(running.wait());  // it is running
    const auto start = std::chrono::steady_clock::now();
    running.worker.process.send_signal(SIGKILL);
    CHECK(running.channel.samples().read(running.wait()).status == RingStatus::kPeerDied);
    server.exit_of(running.worker, hang_limit());
    fastest = std::min(fastest, std::chrono::steady_clock::now() - start);
  }
  CHECK(fastest < std::chrono::milliseconds(100));  // of ten, as other jobs share the cores
}

TEST_CASE_METHOD(ProcessFixture, "replacements under a storm of kills deliver exact streams",
                 "[process][channel][kill][fork]") {
  ForkServer server(plain_worker);
  ByteStream random(17);
  for (std::uint64_t generation = 0; generation < 60; ++generation) {
    CAPTURE(generation);
    RunningWorker running(server, 1, generation);
    for (std::uint64_t units = random.next() % 50; running.received < units; ++running.received) {
      CAPTURE(units);
      REQUIRE(take_unit(running.channel, stream_of(1), running.received, running.wait()) ==
              RingStatus::kItem);
    }
    running.worker.process.send_signal(SIGKILL);
    const RingStatus status = running.drain();
    CHECK(status == RingStatus::kPeerDied);
    CHECK(running.received <= running.channel.status().progress_count() + 1);
    CHECK(running.received >= running.channel.status().progress_count());
  }
}
