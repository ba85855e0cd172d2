// The ring as a queue of limited depth: when it is full, and how rarely its ends make system calls.

#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include <catch2/catch.hpp>

#include "energon/process/message_ring.h"
#include "tests/energon/process/process_fixture.h"

using energon::Doorbell;
using energon::RingReader;
using energon::RingReaderOptions;
using energon::RingSpace;
using energon::RingStatus;
using energon::RingWriter;
using energon::RingWriterOptions;
using energon::SharedMemory;
using energon::SharedRange;
using energon::Wait;

namespace {

constexpr std::uint64_t kUnits = 1000;

Wait at_most(std::chrono::milliseconds time) { return {energon::deadline_after(time)}; }

/// A ring with both ends in one process.
struct Queue {
  explicit Queue(RingWriterOptions writing, RingReaderOptions reading = {})
      : range(make()),
        writer(range, to_reader, to_writer, std::move(writing)),
        reader(range, to_writer, to_reader, reading) {}

  static SharedRange make() {
    const std::uint64_t size = energon::ring_footprint(1 << 16);
    SharedRange range = energon::shared_range(SharedMemory::create(size), 0, size);
    energon::format_ring(range, 1 << 16);
    return range;
  }

  bool send(std::uint64_t weight = 0) {
    if (writer.try_begin(sizeof(weight)).status != RingStatus::kItem) {
      return false;
    }
    writer.commit(sizeof(weight), weight);
    return true;
  }
  void take(int units) {
    for (int i = 0; i < units; ++i) {
      REQUIRE(reader.try_read().status == RingStatus::kItem);
      reader.release();
    }
  }
  int fill(std::uint64_t weight = 0) {
    int sent = 0;
    while (send(weight)) {
      ++sent;
    }
    return sent;
  }

  std::shared_ptr<Doorbell> to_reader = std::make_shared<Doorbell>();
  std::shared_ptr<Doorbell> to_writer = std::make_shared<Doorbell>();
  SharedRange range;
  RingWriter writer;
  RingReader reader;
};

}  // namespace

TEST_CASE("a queue is full at its weight, but always takes two units", "[process][queue]") {
  Queue queue({.max_units = 100, .max_weight = 1000});
  CHECK(queue.fill(300) == 4);  // the last one began below the weight
  queue.take(1);
  CHECK(queue.fill(300) == 1);
  queue.take(4);
  CHECK(queue.fill(5000) == 2);
  queue.take(1);
  CHECK(queue.fill(5000) == 1);
  queue.take(2);
  CHECK(queue.fill(0) == 100);
}

TEST_CASE("a writer on a full long queue sleeps until half of it is left",
          "[process][queue][threads]") {
  const bool by_weight = GENERATE(false, true);
  CAPTURE(by_weight);
  Queue queue(by_weight ? RingWriterOptions{.max_units = 1000, .max_weight = 64}
                        : RingWriterOptions{.max_units = 64});
  REQUIRE(queue.fill(1) == 64);
  queue.take(31);
  // In this process, nobody wakes the writer: it checks once, before it sleeps.
  CHECK(queue.writer.begin(8, at_most(std::chrono::milliseconds(0))).status == RingStatus::kItem);
  queue.writer.abort();
  REQUIRE(queue.fill(1) == 31);
  CHECK(queue.writer.system_calls() == 0);
  std::uint64_t left = 0;
  RingStatus status = RingStatus::kClosed;
  {
    const std::jthread other([&] {
      status = queue.writer.begin(8, at_most(std::chrono::seconds(20))).status;
      left = queue.writer.units_committed() - queue.writer.units_released();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // now it sleeps
    queue.take(31);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(queue.reader.system_calls() == 0);
    queue.take(2);
    CHECK(queue.reader.system_calls() == 1);
  }
  CHECK(status == RingStatus::kItem);
  CHECK(left <= 33);
}

TEST_CASE("a writer waits until a number of units was released", "[process][queue][threads]") {
  Queue queue({.max_units = 8});
  REQUIRE(queue.fill() == 8);
  CHECK(queue.writer.wait_released(1, at_most(std::chrono::milliseconds(1))) ==
        RingStatus::kTimedOut);
  queue.take(3);
  CHECK(queue.writer.wait_released(3, {}) == RingStatus::kItem);
  CHECK(queue.writer.units_released() == 3);
  const RingSpace space = queue.writer.try_begin(8);
  std::memset(space.bytes.data(), 7, 8);
  {
    const std::jthread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      queue.take(2);
    });
    CHECK(queue.writer.wait_released(5, at_most(std::chrono::seconds(20))) == RingStatus::kItem);
  }
  queue.writer.commit();  // the unit begun before the wait
  queue.take(3);
  CHECK(std::to_integer<int>(queue.reader.try_read().bytes.front()) == 7);
  queue.reader.close();
  CHECK(queue.writer.wait_released(9, {}) == RingStatus::kClosed);
}

TEST_CASE("a reader that is faster than its writer naps for several units at a time",
          "[process][queue][threads]") {
  Queue queue({.max_units = 256}, {.spins = false, .naps = true});
  std::jthread writer([&] {
    for (std::uint64_t i = 0; i < kUnits; ++i) {
      // A unit about every 10 us, by the clock, because a sleep would be longer.
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(10);
      while (std::chrono::steady_clock::now() < until) {
      }
      if (queue.writer.begin(8, at_most(std::chrono::seconds(20))).status != RingStatus::kItem) {
        break;
      }
      queue.writer.commit();
    }
    queue.writer.close();
  });
  std::uint64_t units = 0;
  while (queue.reader.read(at_most(std::chrono::seconds(20))).status == RingStatus::kItem) {
    queue.reader.release();
    ++units;
  }
  writer.join();
  CHECK(units == kUnits);
  CHECK(queue.reader.system_calls() + queue.writer.system_calls() < kUnits);  // 4 each by sleeping
}

TEST_CASE("a full queue of small units costs few system calls", "[process][queue][threads]") {
  constexpr std::uint64_t kMany = 20'000;
  Queue queue({.max_units = 256}, {.spins = false, .naps = true});
  std::jthread writer([&] {
    for (std::uint64_t i = 0; i < kMany; ++i) {
      if (queue.writer.begin(8, at_most(std::chrono::seconds(20))).status != RingStatus::kItem) {
        break;
      }
      queue.writer.commit();
    }
    queue.writer.close();
  });
  std::uint64_t units = 0;
  while (queue.reader.read(at_most(std::chrono::seconds(20))).status == RingStatus::kItem) {
    queue.reader.release();
    ++units;
  }
  writer.join();
  CHECK(units == kMany);
  CHECK((queue.reader.system_calls() + queue.writer.system_calls()) * 5 <= kMany);
}
