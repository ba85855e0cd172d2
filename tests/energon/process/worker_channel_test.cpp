#include "energon/process/worker_channel.h"

#include <cstring>
#include <thread>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/energon/process/channel_fixture.h"

using energon::as_text;
using energon::Error;
using energon::ParentEndpoint;
using energon::RingSpace;
using energon::RingStatus;
using energon::RingUnit;
using energon::SlotLease;
using energon::WorkerEndpoint;
using namespace energon::testing;

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
      // Written after the commit of its unit, so the checkpoints of the last few units may still be
      // missing.
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

TEST_CASE("closing the channel wakes a worker that waits for space",
          "[process][channel][threads]") {
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

TEST_CASE(
    "a slow consumer is waited for, and one that waits while it holds everything gets an error",
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
  // Three fit. The consumer does not take units for longer than the starvation limit of 100 ms,
  // without an error.
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
