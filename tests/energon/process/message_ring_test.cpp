#include "energon/process/message_ring.h"

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/energon/process/synthetic_stream.h"

using energon::as_bytes;
using energon::as_text;
using energon::Doorbell;
using energon::Error;
using energon::ErrorCode;
using energon::RingReader;
using energon::RingSpace;
using energon::RingStatus;
using energon::RingUnit;
using energon::RingWriter;
using energon::SharedMemory;
using energon::SharedRange;
using namespace energon::testing;

namespace {

/// A ring with both ends in one process.
struct Ring {
  explicit Ring(std::uint64_t capacity, energon::RingWriterOptions options = {})
      : range(make(capacity)),
        writer(range, to_reader, to_writer, std::move(options)),
        reader(range, to_writer, to_reader) {}

  static SharedRange make(std::uint64_t capacity) {
    const std::uint64_t size = energon::ring_footprint(capacity);
    SharedRange range = energon::shared_range(SharedMemory::create(size), 0, size);
    energon::format_ring(range, capacity);
    return range;
  }

  bool send(std::string_view text) {
    const RingSpace space = writer.try_begin(text.size());
    if (space.status != RingStatus::kItem) {
      return false;
    }
    std::memcpy(space.bytes.data(), text.data(), text.size());
    writer.commit();
    return true;
  }

  std::string receive() {
    const RingUnit unit = reader.try_read();
    if (unit.status != RingStatus::kItem) {
      return "<nothing>";
    }
    std::string text(as_text(unit.bytes));
    reader.release();
    return text;
  }

  std::shared_ptr<Doorbell> to_reader = std::make_shared<Doorbell>();
  std::shared_ptr<Doorbell> to_writer = std::make_shared<Doorbell>();
  SharedRange range;
  RingWriter writer;
  RingReader reader;
};

energon::Wait soon() { return {energon::deadline_after(std::chrono::milliseconds(1))}; }

template <typename Call>
ErrorCode code_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return static_cast<ErrorCode>(0);
}

}  // namespace

TEST_CASE("units are read as they were written", "[process][ring]") {
  Ring ring(4096);
  CHECK(ring.receive() == "<nothing>");
  CHECK(ring.send("first"));
  CHECK(ring.send(""));
  CHECK(ring.send("third unit"));
  CHECK(ring.receive() == "first");
  CHECK(ring.receive() == "");
  CHECK(ring.receive() == "third unit");
  CHECK(ring.receive() == "<nothing>");
}

TEST_CASE("the reader sees nothing until the commit", "[process][ring]") {
  Ring ring(4096);
  const RingSpace space = ring.writer.try_begin(5);
  std::memcpy(space.bytes.data(), "hello", 5);
  CHECK(ring.receive() == "<nothing>");
  ring.writer.commit(4);
  CHECK(ring.receive() == "hell");
}

TEST_CASE("an aborted unit leaves no trace", "[process][ring]") {
  Ring ring(4096);
  ring.send("before");
  std::memset(ring.writer.try_begin(100).bytes.data(), 0xAA, 100);
  ring.writer.abort();
  ring.send("after");
  CHECK(ring.receive() == "before");
  CHECK(ring.receive() == "after");
  CHECK(ring.receive() == "<nothing>");
  CHECK(code_of([&] { ring.writer.commit(); }) == ErrorCode::kInternal);
  CHECK(code_of([&] { ring.reader.release(); }) == ErrorCode::kInternal);
}

TEST_CASE("a unit stays the same until it is released", "[process][ring]") {
  Ring ring(4096);
  ring.send("one");
  ring.send("two");
  CHECK(as_text(ring.reader.try_read().bytes) == "one");
  CHECK(as_text(ring.reader.try_read().bytes) == "one");
  ring.reader.release();
  CHECK(as_text(ring.reader.try_read().bytes) == "two");
}

TEST_CASE("the ring wraps at every alignment", "[process][ring]") {
  for (std::uint64_t start = 0; start < 4096; start += 16) {
    CAPTURE(start);
    Ring ring(4096);
    for (std::uint64_t at = 0; at < start; at += 16) {  // units of no bytes are 16 bytes long
      ring.send("");
      ring.receive();
    }
    bool same = true;
    for (std::uint64_t index = 0; index < 12; ++index) {
      const std::string text(97 * index % 1500, static_cast<char>('a' + index));
      same = same && ring.send(text) && ring.receive() == text;
    }
    REQUIRE(same);
  }
}

TEST_CASE("a full ring accepts no unit until one is released", "[process][ring]") {
  Ring ring(4096);
  const std::string text(1000, 'x');
  int sent = 0;
  while (ring.send(text)) {
    ++sent;
  }
  CHECK(sent == 4);
  CHECK(ring.writer.begin(1000, soon()).status == RingStatus::kTimedOut);
  CHECK(ring.receive() == text);
  CHECK(ring.send(text));
}

TEST_CASE("a ring of two units takes two, however small", "[process][ring]") {
  Ring ring(4096, {.max_units = 2});
  CHECK(ring.send("a"));
  CHECK(ring.send("b"));
  CHECK_FALSE(ring.send("c"));
  CHECK(ring.receive() == "a");
  CHECK(ring.send("c"));
  CHECK_FALSE(ring.send("d"));
}

TEST_CASE("a unit larger than the ring allows is refused at once, with sizes and remedy",
          "[process][ring]") {
  Ring ring(4096, {.remedy = "send less"});
  try {
    ring.writer.begin(5000, {});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kResourceExhausted);
    CHECK_THAT(error.what(), Catch::Contains("5000") && Catch::Contains("2032") &&
                                 Catch::Contains("; send less"));
  }
  CHECK(ring.send(std::string(2032, 'x')));
}

TEST_CASE("closing lets the reader finish, and stops the writer", "[process][ring]") {
  Ring ring(4096);
  ring.send("last");
  ring.writer.close();
  CHECK(ring.reader.read({}).status == RingStatus::kItem);
  ring.reader.release();
  CHECK(ring.reader.read({}).status == RingStatus::kClosed);
  CHECK(ring.reader.read({}).status == RingStatus::kClosed);

  Ring other(4096);
  other.send("unread");
  other.reader.close();
  CHECK(other.writer.begin(1, {}).status == RingStatus::kClosed);
  CHECK(other.reader.read({}).status == RingStatus::kClosed);
}

TEST_CASE("a wait ends at the deadline, and at the death of the peer after the last unit",
          "[process][ring]") {
  Ring ring(4096);
  CHECK(ring.reader.read(soon()).status == RingStatus::kTimedOut);
  const Doorbell death;
  death.ring();
  const int gone[] = {death.fd()};
  ring.send("committed before death");
  CHECK(ring.reader.read({energon::kNever, gone}).status == RingStatus::kItem);
  ring.reader.release();
  CHECK(ring.reader.read({energon::kNever, gone}).status == RingStatus::kPeerDied);
  while (ring.send(std::string(1000, 'x'))) {
  }
  CHECK(ring.writer.begin(1000, {energon::kNever, gone}).status == RingStatus::kPeerDied);
}

TEST_CASE("a scribbled ring yields an error or a unit inside the ring, never a crash",
          "[process][ring][fuzz]") {
  ByteStream random(42);
  std::uint64_t errors = 0;
  for (int round = 0; round < 4000; ++round) {
    CAPTURE(round);
    Ring ring(4096);
    for (int i = 0; i < 5; ++i) {
      ring.send(std::string(random.next() % 300, 'u'));
      if (i == 2) {
        ring.receive();
      }
    }
    // The cursors, the rest of the header, or the units.
    constexpr std::uint64_t kStarts[] = {64, 128, 192, sizeof(energon::RingHeader)};
    constexpr std::uint64_t kSizes[] = {16, 16, 80, 1500};
    for (std::uint64_t n = random.next() % 8 + 1; n > 0; --n) {
      const std::uint64_t area = random.next() % 4;
      ring.range.data()[kStarts[area] + random.next() % kSizes[area]] =
          static_cast<std::byte>(random.next());
    }
    try {
      std::uint64_t sum = 0;
      for (int i = 0; i < 20; ++i) {
        const RingUnit unit = ring.reader.try_read();
        if (unit.status != RingStatus::kItem) {
          break;
        }
        for (const std::byte byte : unit.bytes) {
          sum += static_cast<std::uint64_t>(byte);
        }
        ring.reader.release();
        ring.send(std::string(sum % 200, 'v'));
      }
    } catch (const Error& error) {
      ++errors;
      REQUIRE(error.code() == ErrorCode::kCorruptData);
    }
  }
  CHECK(errors > 1500);
}

TEST_CASE("a damaged unit is an error at each call, naming field and values", "[process][ring]") {
  Ring ring(4096);
  ring.send("unit");
  ring.range.data()[sizeof(energon::RingHeader) + 8] = std::byte{0xFF};
  for (int call = 0; call < 2; ++call) {
    CAPTURE(call);
    CHECK_THROWS_WITH(ring.reader.read({energon::kNow}),
                      Catch::Contains("unit size is 255, expected [0, 16]"));
  }
}

TEST_CASE("a complete unit out of sequence is damage", "[process][ring]") {
  Ring ring(4096);
  ring.send("first");
  ring.send("second");
  CHECK(ring.receive() == "first");
  // As if a writer had published old bytes again: everything except the number is right.
  const std::uint64_t second = sizeof(energon::RingHeader) + 2 * sizeof(energon::UnitHeader);
  ring.range.data()[second + offsetof(energon::UnitHeader, sequence)] = std::byte{0};
  for (int call = 0; call < 2; ++call) {
    CAPTURE(call);
    CHECK_THROWS_WITH(ring.reader.try_read(),
                      Catch::Contains("unit sequence is 0, expected [1, 1]"));
  }
}

TEST_CASE("an endless deadline has not passed", "[process][ring]") {
  for (const energon::Deadline deadline :
       {energon::deadline_after(std::chrono::nanoseconds::max()),
        energon::deadline_after(std::chrono::milliseconds::max()),
        energon::deadline_after(std::chrono::hours::max()),
        energon::deadline_after(std::chrono::hours(24 * 365 * 300))}) {
    CAPTURE(deadline);
    CHECK(deadline == energon::kNever);
  }
  CHECK(energon::deadline_after(std::chrono::hours(24 * 365 * 100)) <
        energon::kNever - std::chrono::hours(24));
  for (const energon::Deadline deadline :
       {energon::deadline_after(std::chrono::milliseconds::min()),
        energon::deadline_after(std::chrono::seconds(0))}) {
    CAPTURE(deadline);
    CHECK(deadline <= std::chrono::steady_clock::now());
  }
}

TEST_CASE("a ring is not opened over foreign bytes", "[process][ring]") {
  const SharedRange range = energon::shared_range(SharedMemory::create(8192), 0, 8192);
  const auto bell = std::make_shared<Doorbell>();
  CHECK(code_of([&] { RingReader(range, bell, bell); }) == ErrorCode::kCorruptData);
  CHECK(code_of([&] { energon::format_ring(range, 5000); }) == ErrorCode::kInvalidArgument);
  CHECK(code_of([&] { energon::format_ring(range, 8192); }) == ErrorCode::kInvalidArgument);
}

TEST_CASE("a million bytes pass between two threads, in order", "[process][ring][threads]") {
  Ring ring(4096);
  constexpr std::uint64_t kUnits = 20000;
  std::thread producer([&ring] {
    for (std::uint64_t index = 0; index < kUnits; ++index) {
      const RingSpace space = ring.writer.begin(payload_size(1, index, 900), {hang_limit()});
      if (space.status != RingStatus::kItem) {
        return;
      }
      fill_payload(1, index, space.bytes);
      ring.writer.commit();
    }
    ring.writer.close();
  });
  std::uint64_t received = 0;
  bool same = true;
  for (;;) {
    const RingUnit unit = ring.reader.read({hang_limit()});
    if (unit.status != RingStatus::kItem) {
      CHECK(unit.status == RingStatus::kClosed);
      break;
    }
    same = same && unit.sequence == received &&
           unit.bytes.size() == payload_size(1, received, 900) &&
           payload_matches(1, received, unit.bytes);
    ring.reader.release();
    ++received;
  }
  producer.join();
  CHECK(same);
  CHECK(received == kUnits);
}

TEST_CASE("two threads that reply to each other lose no wake-up", "[process][ring][threads]") {
  Ring there(4096);
  Ring back(4096);
  constexpr int kTurns = 5000;
  std::thread echo([&] {
    for (int turn = 0; turn < kTurns; ++turn) {
      if (there.reader.read({hang_limit()}).status != RingStatus::kItem) {
        return;
      }
      there.reader.release();
      back.send("pong");
    }
  });
  int answers = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    there.send("ping");
    if (back.reader.read({hang_limit()}).status != RingStatus::kItem) {
      break;
    }
    back.reader.release();
    ++answers;
  }
  echo.join();
  CHECK(answers == kTurns);
}

TEST_CASE("closing from another thread wakes both ends", "[process][ring][threads]") {
  Ring ring(4096);
  while (ring.send(std::string(1000, 'x'))) {
  }
  std::thread closer([&ring] { ring.writer.close(); });
  CHECK(ring.writer.begin(1000, {hang_limit()}).status == RingStatus::kClosed);
  closer.join();
  Ring empty(4096);
  std::thread reader_closer([&empty] { empty.reader.close(); });
  CHECK(empty.reader.read({hang_limit()}).status == RingStatus::kClosed);
  reader_closer.join();
}
