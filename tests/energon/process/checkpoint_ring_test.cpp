#include "energon/process/checkpoint_ring.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include <catch2/catch.hpp>

#include "energon/process/fail_point.h"
#include "energon/process/worker_channel.h"
#include "io/error.h"
#include "tests/energon/process/synthetic_stream.h"
#include "tests/support/skip.h"

using energon::Checkpoint;
using energon::CheckpointReader;
using energon::CheckpointRingOptions;
using energon::CheckpointWriter;
using energon::Error;
using energon::ErrorCode;
using energon::SharedMemory;
using energon::SharedRange;
using namespace energon::testing;

namespace {

SharedRange memory_for(const CheckpointRingOptions& options) {
  const std::uint64_t size = energon::checkpoint_ring_footprint(options);
  return energon::shared_range(SharedMemory::create(size), 0, size);
}

std::vector<std::byte> content(std::uint64_t index) {
  std::vector<std::byte> bytes(payload_size(0, index, 3000));
  fill_payload(0, index, bytes);
  return bytes;
}

}  // namespace

TEST_CASE("the last n checkpoints can be read, and the newest at or before an index is found",
          "[process][checkpoint]") {
  const CheckpointRingOptions options{.slots = 4, .slot_bytes = 4000};
  const SharedRange range = memory_for(options);
  CheckpointWriter writer(range, options);
  const CheckpointReader reader(range, options);
  CHECK_FALSE(reader.newest_not_after(~std::uint64_t{0}));
  for (std::uint64_t index = 0; index <= 60; index += 10) {
    writer.write(index, content(index));
  }
  CHECK(reader.indexes() == std::vector<std::uint64_t>{30, 40, 50, 60});
  CHECK_FALSE(reader.newest_not_after(29));
  const auto found = reader.newest_not_after(49);
  REQUIRE(found);
  CHECK(found->index == 40);
  CHECK(found->bytes == content(40));
  CHECK(reader.newest_not_after(60)->index == 60);
}

TEST_CASE("older checkpoints stay as history, as far as their number and bytes allow",
          "[process][checkpoint]") {
  const auto indexes = [](std::uint32_t history_slots, std::uint64_t history_bytes,
                          std::size_t size) {
    const CheckpointRingOptions options{.slots = 2,
                                        .slot_bytes = 4000,
                                        .history_slots = history_slots,
                                        .history_bytes = history_bytes};
    const SharedRange range = memory_for(options);
    CheckpointWriter writer(range, options);
    const CheckpointReader reader(range, options);
    for (std::uint64_t index = 0; index < 100; ++index) {
      writer.write(index, std::vector<std::byte>(size, static_cast<std::byte>(index)));
      REQUIRE(reader.indexes().size() == writer.stored_count());
      REQUIRE(reader.newest_not_after(index)->index == index);
    }
    const auto oldest = reader.between(0, ~std::uint64_t{0}).front();
    const auto begin = reader.oldest(16);
    CHECK(begin->index == oldest.index);
    CHECK(std::ranges::equal(begin->bytes, std::span(oldest.bytes).first(begin->bytes.size())));
    CHECK(begin->bytes.size() == std::min<std::size_t>(16, size));
    for (const std::uint64_t index : reader.indexes()) {
      CHECK(reader.newest_not_after(index)->bytes ==
            std::vector<std::byte>(size, static_cast<std::byte>(index)));
    }
    return reader.indexes();
  };
  CHECK(indexes(0, 1 << 20, 100).size() == 2);
  CHECK(indexes(5, 1 << 20, 100) == std::vector<std::uint64_t>{93, 94, 95, 96, 97, 98, 99});
  CHECK(indexes(5, 0, 100).size() == 2);
  CHECK(indexes(50, 640, 64).size() == 12);
  CHECK(indexes(50, 639, 64).size() == 11);
  CHECK(indexes(50, 1 << 20, 0).size() == 52);
}

TEST_CASE("checkpoints of any sizes fit, and the newest ones always stay",
          "[process][checkpoint]") {
  for (std::uint32_t slots = 2; slots < 7; ++slots) {
    const CheckpointRingOptions options{
        .slots = slots, .slot_bytes = 3000, .history_slots = 9, .history_bytes = 5000};
    const SharedRange range = memory_for(options);
    CheckpointWriter writer(range, options);
    const CheckpointReader reader(range, options);
    ByteStream random(slots);
    for (std::uint64_t index = 0; index < 3000; ++index) {
      CAPTURE(slots, index);
      const std::size_t limit = random.next() % 4 == 0 ? 3001 : 200;  // some as large as a slot
      std::vector<std::byte> bytes((random.next() * std::uint64_t{251} + random.next()) % limit);
      fill_payload(0, index, bytes);
      writer.write(index, bytes);
      REQUIRE(reader.newest_not_after(index)->bytes == bytes);
      const auto kept = reader.indexes();
      REQUIRE(kept.size() >= std::min<std::uint64_t>(slots, index + 1));
      REQUIRE(kept.back() - kept.front() == kept.size() - 1);  // only the oldest ones are dropped
    }
  }
}

TEST_CASE("a checkpoint larger than its slot names the option and both sizes",
          "[process][checkpoint]") {
  const CheckpointRingOptions options{.slots = 2, .slot_bytes = 1000};
  CheckpointWriter writer(memory_for(options), options);
  CHECK_THROWS_WITH(writer.write(0, std::vector<std::byte>(1001)),
                    Catch::Contains("1001") && Catch::Contains("1000") &&
                        Catch::Contains("checkpoint_slot_bytes"));
  CHECK_NOTHROW(writer.write(1, std::vector<std::byte>(1000)));
  CHECK_THROWS_AS(writer.write(0, std::vector<std::byte>(1)), Error);
}

TEST_CASE("if two checkpoints have the same index, the newer is found", "[process][checkpoint]") {
  const CheckpointRingOptions options{.slots = 3, .slot_bytes = 4000};
  const SharedRange range = memory_for(options);
  CheckpointWriter writer(range, options);
  const CheckpointReader reader(range, options);
  // The slots are used in turn, so the newer checkpoint is stored both before and after the older
  // one.
  for (std::uint64_t index = 0; index < 6; ++index) {
    CAPTURE(index);
    writer.write(index, content(index));
    writer.write(index, content(index + 100));
    CHECK(reader.newest_not_after(index)->bytes == content(index + 100));
  }
}

TEST_CASE("a half-written checkpoint is invisible, earlier ones are not", "[process][checkpoint]") {
  if (!energon::has_fail_points()) {
    return energon::testing::skip_case("built without fail points");
  }
  const CheckpointRingOptions options{.slots = 3, .slot_bytes = 4000};
  const SharedRange range = memory_for(options);
  CheckpointWriter writer(range, options);
  const CheckpointReader reader(range, options);
  for (std::uint64_t index = 1; index <= 5; ++index) {
    writer.write(index, content(index));
  }
  energon::arm_fail_point("checkpoint.half_written", energon::FailAction::kThrow);
  CHECK_THROWS_AS(writer.write(6, content(6)), Error);
  energon::disarm_fail_point();
  CHECK(reader.indexes() == std::vector<std::uint64_t>{4, 5});
  writer.write(6, content(6));  // into the same slot
  CHECK(reader.newest_not_after(6)->bytes == content(6));
}

TEST_CASE("a scribbled checkpoint is skipped", "[process][checkpoint][fuzz]") {
  const CheckpointRingOptions options{.slots = 2, .slot_bytes = 4000};
  const SharedRange range = memory_for(options);
  CheckpointWriter writer(range, options);
  const CheckpointReader reader(range, options);
  ByteStream random(9);
  std::uint64_t index = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    ++index;
    writer.write(index, content(index));
    const std::uint64_t place = random.next() % 300;  // in the table, or in the bytes after it
    range.data()[place < 128 ? place : 4096 + place - 128] ^= static_cast<std::byte>(random.next());
    const auto found = reader.newest_not_after(~std::uint64_t{0});
    REQUIRE((!found || found->bytes == content(found->index)));
  }
}

TEST_CASE("a reader thread gets whole checkpoints while they are overwritten",
          "[process][checkpoint][threads]") {
  const CheckpointRingOptions options{.slots = 2, .slot_bytes = 4000};
  const SharedRange range = memory_for(options);
  CheckpointWriter writer(range, options);
  const CheckpointReader reader(range, options);
  std::atomic<bool> done{false};
  std::atomic<bool> same{true};
  std::thread other([&] {
    while (!done) {
      if (const auto found = reader.newest_not_after(~std::uint64_t{0})) {
        same = same && found->bytes == content(found->index);
      }
    }
  });
  for (std::uint64_t index = 1; index <= 3000; ++index) {
    writer.write(index, content(index));
  }
  done = true;
  other.join();
  CHECK(same);
}

TEST_CASE("a reader finds what it needs while the writer continues as far as allowed",
          "[process][checkpoint][threads]") {
  // The writer is ahead by as many checkpoints as a ring of samples allows: the slots hold one
  // more.
  constexpr std::uint64_t kAhead = 3;
  const CheckpointRingOptions options{.slots = kAhead + 1, .slot_bytes = 4000};
  const SharedRange range = memory_for(options);
  CheckpointWriter writer(range, options);
  const CheckpointReader reader(range, options);
  std::atomic<std::uint64_t> delivered{0};
  std::atomic<std::uint64_t> written{0};
  std::uint64_t wrong = 0;
  std::thread other([&] {
    for (std::uint64_t index = 1; index <= 5000; ++index) {
      while (index > delivered + kAhead) {
        std::this_thread::yield();
      }
      writer.write(index, content(index));
      written = index;
    }
  });
  for (std::uint64_t index = 1; index <= 5000; ++index) {
    while (written < index) {
      std::this_thread::yield();
    }
    delivered = index;
    for (int look = 0; look < 3; ++look) {
      const auto found = reader.newest_not_after(index);
      wrong += found && found->index == index && found->bytes == content(index) ? 0 : 1;
    }
  }
  other.join();
  CHECK(wrong == 0);
}

TEST_CASE("a damaged checkpoint is skipped for the next older one", "[process][checkpoint]") {
  const CheckpointRingOptions options{.slots = 4, .slot_bytes = 4000};
  const SharedRange range = memory_for(options);
  CheckpointWriter writer(range, options);
  const CheckpointReader reader(range, options);
  for (std::uint64_t index = 1; index <= 4; ++index) {
    writer.write(index, content(index));
  }
  std::uint64_t place = energon::page_bytes();  // after the table, one after the other
  std::vector<std::uint64_t> places;
  for (std::uint64_t index = 1; index <= 4; ++index) {
    places.push_back(std::exchange(place, place + energon::align_up(content(index).size(), 64)));
  }
  for (std::uint64_t newest = 4; newest >= 1; --newest) {
    CAPTURE(newest);
    CHECK(reader.newest_not_after(9)->bytes == content(newest));
    range.data()[places[newest - 1]] ^= std::byte{1};  // of its first word
  }
  CHECK_FALSE(reader.newest_not_after(9));
}

TEST_CASE("the status words yield a complete item or none", "[process][status][threads]") {
  energon::WorkerStatus status{};
  CHECK_FALSE(status.item());
  std::atomic<bool> same{true};
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
      const auto item = status.item();
      same = same && (!item || item->first == ~item->second);
    }
  });
  for (std::uint64_t i = 1; i <= 20000; ++i) {
    status.set_item({i, ~i});
    status.advance();
  }
  done = true;
  other.join();
  CHECK(same);
  CHECK(status.progress_count() == 20000);
  CHECK(status.item()->first == 20000);
}
