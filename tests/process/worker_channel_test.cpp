#include "energon/process/worker_channel.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <thread>

#include <catch2/catch.hpp>

#include "energon/process/fail_point.h"
#include "energon/process/fork_server.h"
#include "io/error.h"
#include "tests/process/process_fixture.h"
#include "tests/process/synthetic_stream.h"
#include "tests/support/child_runner.h"

using energon::as_text;
using energon::Error;
using energon::ErrorCode;
using energon::FailAction;
using energon::ForkServer;
using energon::ParentEndpoint;
using energon::ProcessEnd;
using energon::RingSpace;
using energon::RingStatus;
using energon::RingUnit;
using energon::SlotLease;
using energon::WorkerEndpoint;
using energon::WorkerProcess;
using energon::WorkerStart;
using namespace energon::testing;

namespace {

constexpr std::uint64_t kCount = 400;

StreamOptions stream_of(int worker) {
  return {.worker = static_cast<std::uint64_t>(worker), .count = kCount};
}

void echo_commands(WorkerEndpoint& worker, const energon::Wait& wait) {
  for (;;) {
    const RingUnit command = worker.commands().read(wait);
    if (command.status != RingStatus::kItem) {
      return;
    }
    ENERGON_FAIL_POINT("command.received");
    const RingSpace space = worker.results().begin(command.bytes.size(), wait);
    if (space.status != RingStatus::kItem) {
      return;
    }
    std::memcpy(space.bytes.data(), command.bytes.data(), command.bytes.size());
    worker.results().commit();
    worker.commands().release();
  }
}

/// The payload names a fail point to arm, or is empty; "commands" answers instead of sending.
int run_worker(WorkerStart& start, std::string_view site, FailAction action, std::uint64_t nth) {
  WorkerEndpoint worker(std::move(start.descriptors));
  const energon::Wait wait{energon::kNever, start.watch->descriptors()};
  if (!site.empty() && site != "worker.init") {
    energon::arm_fail_point(site, action, nth);
  }
  if (site == "command.received") {
    echo_commands(worker, wait);
  } else {
    send_stream(worker, stream_of(start.worker_id), wait);
  }
  worker.close();
  return 0;
}

int plain_worker(WorkerStart& start) { return run_worker(start, "", FailAction::kKill, 0); }

RingStatus send_command(ParentEndpoint& parent, std::string_view text, const energon::Wait& wait) {
  const RingSpace space = parent.commands().begin(text.size(), wait);
  if (space.status == RingStatus::kItem) {
    std::memcpy(space.bytes.data(), text.data(), text.size());
    parent.commands().commit();
  }
  return space.status;
}

/// A worker process with its channel.
struct RunningWorker {
  RunningWorker(ForkServer& server, int id, std::uint64_t generation = 0)
      : worker(server.spawn(
            {.worker_id = id, .generation = generation, .descriptors = channel.descriptors()},
            hang_limit())),
        gone{worker.fd(), server.fd()} {}

  energon::Wait wait() const { return {hang_limit(), gone}; }

  /// Takes units until there is none; returns how the last wait ended.
  RingStatus drain() {
    RingStatus status = RingStatus::kItem;
    while ((status = take_unit(channel, stream_of(worker.worker_id), received, wait())) ==
           RingStatus::kItem) {
      ++received;
    }
    return status;
  }

  ParentEndpoint channel{small_channel()};
  WorkerProcess worker;
  std::array<int, 2> gone;
  std::uint64_t received = 0;
};

}  // namespace

TEST_CASE("a stream, commands and checkpoints pass between threads",
          "[process][channel][threads]") {
  ParentEndpoint parent(small_channel());
  const auto worker = attach_here(parent);
  std::thread main([&] { send_stream(*worker, stream_of(1), {hang_limit()}); });
  std::thread commands([&] { echo_commands(*worker, {hang_limit()}); });
  std::uint64_t received = 0;
  std::uint64_t answers = 0;
  for (; received < kCount; ++received) {
    if (take_unit(parent, stream_of(1), received, {hang_limit()}) != RingStatus::kItem) {
      break;
    }
    if (received % 10 == 0) {
      send_command(parent, "get_checkpoint", {hang_limit()});
      const RingUnit answer = parent.results().read({hang_limit()});
      answers += as_text(answer.bytes) == "get_checkpoint" ? 1 : 0;
      parent.results().release();
      // Written after the commit of its unit, so that of the last few units may be on its way.
      const auto checkpoint = parent.checkpoints().newest_not_after(received + 20);
      answers += received == 0 || (checkpoint && checkpoint->index + 20 >= received) ? 1 : 0;
    }
  }
  parent.close();
  main.join();
  commands.join();
  CHECK(received == kCount);
  CHECK(answers == 2 * kCount / 10);
  CHECK(parent.status().progress_count() == kCount);
}

TEST_CASE("closing the channel wakes a worker that waits for room", "[process][channel][threads]") {
  ParentEndpoint parent(small_channel());
  const auto worker = attach_here(parent);
  std::uint64_t sent = 0;
  std::thread main([&] { sent = send_stream(*worker, stream_of(1), {hang_limit()}); });
  std::thread commands([&] { echo_commands(*worker, {hang_limit()}); });
  CHECK(eventually([&] { return parent.status().progress_count() == 6; }));
  parent.close();
  main.join();
  commands.join();
  CHECK(sent == 6);
  CHECK(worker->closing());
}

TEST_CASE("a slow consumer is waited for; one that waits while it holds everything gets an error",
          "[process][channel][threads]") {
  ParentEndpoint parent(small_channel());
  const auto worker = attach_here(parent);
  const StreamOptions large{.worker = 1, .count = 40, .largest = 1 << 20};
  std::string message;
  std::thread main([&] {
    try {
      for (std::uint64_t index = 0; index < large.count; ++index) {
        energon::ArenaSlot slot = worker->arena().acquire(300000, {hang_limit()});
        const RingSpace space = worker->samples().begin(sizeof(StreamUnit), {hang_limit()});
        const StreamUnit unit{1, index, slot.publish()};
        std::memcpy(space.bytes.data(), &unit, sizeof(unit));
        worker->samples().commit();
      }
    } catch (const Error& error) {
      message = error.what();
    }
    worker->close();
  });
  // Three fit. The consumer does not ask for longer than the starvation limit of 100 ms: no error.
  energon::wait_any({}, energon::deadline_after(std::chrono::milliseconds(250)));
  std::vector<SlotLease> kept;
  for (;;) {
    const RingUnit received = parent.samples().read({hang_limit()});
    if (received.status != RingStatus::kItem) {
      CHECK(received.status == RingStatus::kClosed);
      break;
    }
    StreamUnit unit;
    std::memcpy(&unit, received.bytes.data(), sizeof(unit));
    parent.samples().release();
    kept.push_back(parent.arena().lease(unit.slot));
  }
  main.join();
  CHECK(kept.size() == 3);
  CHECK_THAT(message, Catch::Contains("arena_limit") && Catch::Contains("in 3 samples"));
}

TEST_CASE("a worker refuses memory that is not a channel of this build", "[process][channel]") {
  ParentEndpoint parent(small_channel());
  parent.memory()->data()[0] = std::byte{0};
  CHECK_THROWS_AS(attach_here(parent), Error);
  CHECK_THROWS_AS(WorkerEndpoint({}), Error);
  energon::ChannelOptions wrong = small_channel();
  wrong.sample_ring_bytes = 5000;
  CHECK_THROWS_AS(ParentEndpoint(wrong), Error);
}

TEST_CASE("a worker that scribbles over the whole channel is an error, not a crash",
          "[process][channel][fuzz]") {
  ByteStream random(5);
  for (int round = 0; round < 300; ++round) {
    ParentEndpoint parent(small_channel());
    const auto worker = attach_here(parent);
    StreamOptions stream = stream_of(1);
    stream.count = 5;
    send_stream(*worker, stream, {energon::kNow});
    for (std::uint64_t n = random.next() % 400; n > 0; --n) {
      parent.memory()->data()[4096 + random.next() % 120000] =
          static_cast<std::byte>(random.next());
    }
    try {
      for (std::uint64_t i = 0; i < 6; ++i) {
        take_unit(parent, stream, i, {energon::kNow});
      }
    } catch (const std::exception&) {  // damaged, and noticed
    }
    parent.checkpoints().newest_not_after(~std::uint64_t{0});
  }
  SUCCEED();
}

TEST_CASE_METHOD(ProcessFixture, "worker processes deliver every byte",
                 "[process][channel][fork]") {
  ForkServer server(plain_worker);
  std::vector<std::unique_ptr<RunningWorker>> workers;
  for (int id = 0; id < 3; ++id) {
    workers.push_back(std::make_unique<RunningWorker>(server, id));
  }
  for (const auto& worker : workers) {
    CHECK(worker->drain() == RingStatus::kClosed);
    CHECK(worker->received == kCount);
    CHECK(server.exit_of(worker->worker, hang_limit()).describe() == "exited with code 0");
  }
}

TEST_CASE_METHOD(ProcessFixture, "a worker inherits memory that has no descriptor",
                 "[process][channel][fork]") {
  // As where memfd_create is refused: the mapping made before the fork is used.
  auto channel = std::make_unique<ParentEndpoint>(small_channel());
  ForkServer server([&](WorkerStart& start) {
    WorkerEndpoint worker(std::move(start.descriptors), channel->memory());
    send_stream(worker, stream_of(0), {energon::kNever, start.watch->descriptors()});
    return 0;
  });
  std::vector<int> bells = channel->descriptors();
  bells.erase(bells.begin());
  const WorkerProcess worker = server.spawn({.descriptors = bells}, hang_limit());
  for (std::uint64_t index = 0; index < kCount; ++index) {
    REQUIRE(take_unit(*channel, stream_of(0), index, {hang_limit()}) == RingStatus::kItem);
  }
}

TEST_CASE_METHOD(ProcessFixture, "a worker killed at any protocol state loses nothing committed",
                 "[process][channel][kill][fork]") {
  if (!energon::has_fail_points()) {
    WARN("SKIPPED: built without fail points");
    return;
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
        continue;  // a fast consumer: it never waited that often
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

TEST_CASE_METHOD(ProcessFixture, "a worker killed while idle leaves the parent able to go on",
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
  CHECK(status == RingStatus::kPeerDied);  // the command ring got full
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
    RunningWorker running(server, 0, i);
    send_command(running.channel, "hello", running.wait());
    running.channel.results().read(running.wait());  // it is up
    const auto start = std::chrono::steady_clock::now();
    running.worker.process.send_signal(SIGKILL);
    CHECK(running.channel.samples().read(running.wait()).status == RingStatus::kPeerDied);
    server.exit_of(running.worker, hang_limit());
    fastest = std::min(fastest, std::chrono::steady_clock::now() - start);
  }
  CHECK(fastest < std::chrono::milliseconds(100));  // of ten, as other jobs share the processors
}

TEST_CASE_METHOD(ProcessFixture, "replacements under a storm of kills deliver exact streams",
                 "[process][channel][kill][fork]") {
  ForkServer server(plain_worker);
  ByteStream random(17);
  for (std::uint64_t generation = 0; generation < 60; ++generation) {
    RunningWorker running(server, 1, generation);
    for (std::uint64_t units = random.next() % 50; running.received < units; ++running.received) {
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

TEST_CASE_METHOD(ProcessFixture, "leases outlive worker, channel and fork server",
                 "[process][channel][fork]") {
  SlotLease lease;
  {
    ForkServer server(plain_worker);
    RunningWorker running(server, 0);
    StreamOptions stream = stream_of(0);
    for (std::uint64_t index = 0; index < 30; ++index) {
      REQUIRE(take_unit(running.channel, stream, index, running.wait(), &lease) ==
              RingStatus::kItem);
    }
  }
  CHECK(payload_matches(0, 29, lease.bytes));
}

TEST_CASE_METHOD(ProcessFixture, "in a forked child channel and leases are inert",
                 "[process][channel][fork]") {
  ForkServer server(plain_worker);
  auto running = std::make_unique<RunningWorker>(server, 0);
  SlotLease lease;
  take_unit(running->channel, stream_of(0), 0, running->wait(), &lease);
  running->received = 1;
  const ChildResult child = run_in_child([&] {
    int refused = 0;
    try {
      running->channel.samples().read({});
    } catch (const Error& error) {
      refused += error.code() == ErrorCode::kCancelled ? 1 : 0;
    }
    try {
      running->channel.close();
    } catch (const Error& error) {
      refused += error.code() == ErrorCode::kCancelled ? 1 : 0;
    }
    lease = {};
    running.reset();
    return refused == 2 ? 0 : 1;
  });
  CHECK(child.exit_code == 0);
  CHECK(running->drain() == RingStatus::kClosed);
  CHECK(running->received == kCount);
}

TEST_CASE_METHOD(ProcessFixture, "a signal each millisecond on both sides changes nothing",
                 "[process][channel][fork]") {
  const auto storm = [] {
    struct sigaction action {};
    action.sa_handler = [](int) {};  // no SA_RESTART: calls are interrupted
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval period{{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &period, nullptr);
  };
  const ChildResult child = run_in_child([&] {
    storm();
    ForkServer server([&](WorkerStart& start) {
      storm();
      return plain_worker(start);
    });
    for (int id = 0; id < 3; ++id) {
      RunningWorker running(server, id);
      if (running.drain() != RingStatus::kClosed || running.received != kCount ||
          server.exit_of(running.worker, hang_limit()).value != 0) {
        return 1;
      }
    }
    return 0;
  });
  CHECK(child.exit_code == 0);
}

TEST_CASE_METHOD(ProcessFixture, "a tiny /dev/shm does not matter", "[process][channel][fork]") {
  const ChildResult child = run_in_child([] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=16m") != 0) {
      return 77;
    }
    energon::ChannelOptions options = small_channel();
    options.arena.limit_bytes = 64 << 20;
    ParentEndpoint parent(options);
    const auto worker = attach_here(parent);
    energon::ArenaSlot slot = worker->arena().acquire(48 << 20, {hang_limit()});
    fill_payload(1, 2, slot.bytes());
    const SlotLease lease = parent.arena().lease(slot.publish());
    return payload_matches(1, 2, lease.bytes) ? 0 : 1;
  });
  if (child.exit_code == 77) {
    WARN("SKIPPED: not permitted to mount a tmpfs");
    return;
  }
  CHECK(child.exit_code == 0);
}

TEST_CASE_METHOD(ProcessFixture, "fifty channels come and go", "[process][channel][fork]") {
  for (int i = 0; i < 25; ++i) {
    ForkServer server(plain_worker);
    RunningWorker first(server, 0);
    RunningWorker second(server, 1);
    REQUIRE(take_unit(first.channel, stream_of(0), 0, first.wait()) == RingStatus::kItem);
    REQUIRE(take_unit(second.channel, stream_of(1), 0, second.wait()) == RingStatus::kItem);
  }
}
