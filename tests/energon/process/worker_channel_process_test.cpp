// Channels between processes that end normally.

#include <sched.h>
#include <sys/mount.h>
#include <sys/time.h>

#include <csignal>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/energon/process/channel_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/skip.h"

using energon::Error;
using energon::ErrorCode;
using energon::ForkServer;
using energon::ParentEndpoint;
using energon::RingStatus;
using energon::SlotLease;
using energon::WorkerEndpoint;
using energon::WorkerProcess;
using energon::WorkerStart;
using namespace energon::testing;

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

TEST_CASE_METHOD(ProcessFixture, "leases outlive worker, channel and fork server",
                 "[process][channel][fork]") {
  SlotLease lease;
  {
    ForkServer server(plain_worker);
    RunningWorker running(server, 0);
    StreamOptions stream = stream_of(0);
    for (std::uint64_t index = 0; index < 30; ++index) {
      CAPTURE(index);
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

TEST_CASE_METHOD(ProcessFixture, "a signal each millisecond on both sides has no effect",
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
    return skip_case("not permitted to mount a tmpfs");
  }
  CHECK(child.exit_code == 0);
}

TEST_CASE_METHOD(ProcessFixture, "fifty channels come and go", "[process][channel][fork]") {
  for (int i = 0; i < 25; ++i) {
    CAPTURE(i);
    ForkServer server(plain_worker);
    RunningWorker first(server, 0);
    RunningWorker second(server, 1);
    REQUIRE(take_unit(first.channel, stream_of(0), 0, first.wait()) == RingStatus::kItem);
    REQUIRE(take_unit(second.channel, stream_of(1), 0, second.wait()) == RingStatus::kItem);
  }
}
