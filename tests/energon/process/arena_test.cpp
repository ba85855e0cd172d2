#include "energon/process/arena.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <thread>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/energon/process/synthetic_stream.h"

using energon::ArenaOptions;
using energon::ArenaReader;
using energon::ArenaSlot;
using energon::ArenaWriter;
using energon::Doorbell;
using energon::Error;
using energon::ErrorCode;
using energon::page_bytes;
using energon::RingReader;
using energon::RingWriter;
using energon::SharedMemory;
using energon::SharedRange;
using energon::SlotLease;
using energon::SlotReference;
using namespace energon::testing;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// Both halves of an arena in one process.
struct Arena {
  explicit Arena(ArenaOptions options)
      : ring_bytes(energon::ring_footprint(energon::kReturnRingBytes)),
        memory(SharedMemory::create(
            energon::align_up(ring_bytes, page_bytes()) +
            energon::arena_footprint(options.limit_bytes, options.reserve_bytes))) {
    const SharedRange ring = energon::shared_range(memory, 0, ring_bytes);
    const std::uint64_t start = energon::align_up(ring_bytes, page_bytes());
    const SharedRange range = energon::shared_range(memory, start, memory->size() - start);
    energon::format_ring(ring, energon::kReturnRingBytes);
    worker = std::make_unique<ArenaWriter>(
        range, std::make_unique<RingReader>(ring, bell, worker_bell), options);
    parent =
        std::make_unique<ArenaReader>(range, std::make_unique<RingWriter>(ring, worker_bell, bell));
  }

  SlotReference publish(std::uint64_t size) {
    ArenaSlot slot = worker->acquire(size, now());
    fill_payload(0, size, slot.bytes());
    return slot.publish();
  }
  static energon::Wait now() { return {energon::deadline_after(std::chrono::milliseconds(1))}; }

  std::uint64_t ring_bytes;
  std::shared_ptr<SharedMemory> memory;
  std::shared_ptr<Doorbell> bell = std::make_shared<Doorbell>();
  std::shared_ptr<Doorbell> worker_bell = std::make_shared<Doorbell>();
  std::unique_ptr<ArenaWriter> worker;
  std::unique_ptr<ArenaReader> parent;
};

/// Bytes of memory that the system has given to a memfd.
std::uint64_t allocated(int memfd) {
  struct stat status {};
  ::fstat(memfd, &status);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

ArenaOptions limits(std::uint64_t limit, std::uint64_t keep) {
  return {.limit_bytes = limit, .keep_free_bytes = keep};
}

}  // namespace

TEST_CASE("the parent sees the bytes of a published slot", "[process][arena]") {
  Arena arena(limits(4 * kMiB, kMiB));
  for (const std::uint64_t size : {0, 1, 4096, 4097, 100000, 1 << 20}) {
    CAPTURE(size);
    const SlotLease lease = arena.parent->lease(arena.publish(size));
    REQUIRE(lease.bytes.size() == size);
    CHECK(payload_matches(0, size, lease.bytes));
    CHECK(reinterpret_cast<std::uintptr_t>(lease.bytes.data()) % page_bytes() == 0);
  }
}

TEST_CASE("the most recently used slot is reused, so a steady state touches no new page",
          "[process][arena]") {
  Arena arena(limits(64 * kMiB, 64 * kMiB));
  const SlotReference first = arena.publish(100000);
  arena.parent->lease(first);
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    const SlotReference next = arena.publish(100000 - i);
    REQUIRE(next.offset == first.offset);
    arena.parent->lease(next);
  }
  arena.worker->collect();
  CHECK(arena.worker->touched_bytes() == energon::align_up(100000, page_bytes()));
}

TEST_CASE("a slot that is not published becomes free again", "[process][arena]") {
  Arena arena(limits(kMiB, kMiB));
  for (int i = 0; i < 100; ++i) {
    ArenaSlot slot = arena.worker->acquire(600000, Arena::now());
    ArenaSlot moved = std::move(slot);
    moved = ArenaSlot();
  }
  CHECK(arena.worker->slots_held() == 0);
  CHECK(arena.worker->free_bytes() == arena.worker->touched_bytes());
}

TEST_CASE("a slot shrinks and grows while it is written", "[process][arena]") {
  Arena arena(limits(8 * kMiB, kMiB));
  ArenaSlot slot = arena.worker->acquire(3000, Arena::now());
  fill_payload(0, 1, slot.bytes());
  slot.resize(4000, Arena::now());
  CHECK(payload_matches(0, 1, slot.bytes().first(2992)));
  slot.resize(500000, Arena::now());
  CHECK(payload_matches(0, 1, slot.bytes().first(2992)));
  slot.resize(2992, Arena::now());
  const SlotLease lease = arena.parent->lease(slot.publish());
  CHECK(lease.bytes.size() == 2992);
  CHECK(payload_matches(0, 1, lease.bytes));
}

TEST_CASE("a consumer that keeps everything gets an error with limit, bytes and option",
          "[process][arena]") {
  Arena arena(limits(kMiB, kMiB));
  const std::uint64_t touched = energon::align_up(200000, page_bytes());
  std::vector<SlotLease> kept;
  try {
    for (int i = 0; i < 100; ++i) {
      kept.push_back(arena.parent->lease(arena.publish(200000)));
    }
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kResourceExhausted);
    CHECK_THAT(error.what(), Catch::Contains("limit 1048576 bytes") &&
                                 Catch::Contains("arena_limit") &&
                                 Catch::Contains(fmt::format("{} bytes in {} samples",
                                                             kept.size() * touched, kept.size())));
  }
  CHECK(kept.size() == kMiB / touched);  // 5, or 4 with large pages
  kept.erase(kept.begin() + 2);
  kept.push_back(arena.parent->lease(arena.publish(200000)));  // one back, one out
  CHECK(payload_matches(0, 200000, kept.back().bytes));
}

TEST_CASE("a payload above the limit is refused at once, a payload of exactly the limit is not",
          "[process][arena]") {
  Arena arena(limits(kMiB, kMiB));
  CHECK_THROWS_WITH(arena.worker->acquire(kMiB + 1, {}), Catch::Contains("arena_limit"));
  CHECK_THROWS_WITH(arena.worker->acquire(~std::uint64_t{0}, {}), Catch::Contains("arena_limit"));
  CHECK(arena.worker->acquire(kMiB, Arena::now()).bytes().size() == kMiB);
}

TEST_CASE("sizes change without the arena running out", "[process][arena]") {
  Arena arena(limits(4 * kMiB, 2 * kMiB));
  ByteStream random(3);
  std::vector<SlotLease> window;
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    const std::uint64_t size = random.next() % 400000;
    window.push_back(arena.parent->lease(arena.publish(size)));
    REQUIRE(payload_matches(0, size, window.back().bytes.first(std::min<std::uint64_t>(size, 64))));
    if (window.size() > 5) {
      window.erase(window.begin() + static_cast<std::ptrdiff_t>(random.next() % window.size()));
    }
    REQUIRE(arena.worker->touched_bytes() <= 4 * kMiB);
  }
}

TEST_CASE("free memory above the threshold is returned to the system", "[process][arena]") {
  Arena arena(limits(64 * kMiB, kMiB));
  std::vector<SlotLease> kept;
  for (int i = 0; i < 8; ++i) {
    kept.push_back(arena.parent->lease(arena.publish(4 * kMiB)));
  }
  CHECK(arena.worker->touched_bytes() == 32 * kMiB);
  kept.clear();
  arena.worker->collect();
  CHECK(arena.worker->touched_bytes() <= kMiB);
}

TEST_CASE("a damaged slot reference is refused", "[process][arena]") {
  Arena arena(limits(kMiB, kMiB));
  const SlotReference good = arena.publish(5000);
  int number = 0;
  for (const SlotReference& bad :
       {SlotReference{good.offset + 1, 10, 0, 0}, SlotReference{~std::uint64_t{0} << 16, 10, 0, 0},
        SlotReference{0, ~std::uint64_t{0}, 0, 0}, SlotReference{1 << 30, 1 << 30, 0, 0}}) {
    INFO("reference " << number++);
    CHECK_THROWS_AS(arena.parent->lease(bad), Error);
  }
}

TEST_CASE("the worker detects a slot that is returned twice", "[process][arena]") {
  Arena arena(limits(kMiB, kMiB));
  const SlotReference reference = arena.publish(5000);
  arena.parent->lease(reference);
  arena.parent->lease(reference);
  CHECK_THROWS_AS(arena.worker->collect(), Error);
}

TEST_CASE("a stale return of a slot that was published again is detected", "[process][arena]") {
  Arena arena(limits(kMiB, kMiB));
  const SlotReference first = arena.publish(5000);
  SlotLease stale = arena.parent->lease(first);
  arena.parent->lease(first);
  const SlotReference second = arena.publish(5000);
  REQUIRE(second.slot == first.slot);
  REQUIRE(second.tag == first.tag + 1);
  stale = {};
  CHECK_THROWS_WITH(arena.worker->collect(), Catch::Contains("publication 1"));
}

TEST_CASE("lending too many slots is a distinct error, whatever the limit", "[process][arena]") {
  Arena arena(limits(4096 * kMiB, kMiB));
  std::vector<SlotReference> out;
  for (std::uint64_t i = 0; i < energon::kMaxSlotsHeld; ++i) {
    out.push_back(arena.worker->acquire(100, Arena::now()).publish());
  }
  CHECK_THROWS_WITH(arena.publish(100), Catch::Contains("32768 is as many as a worker can lend") &&
                                            !Catch::Contains("raise arena_limit"));
  arena.parent->lease(out.front());
  CHECK_NOTHROW(arena.publish(100));
}

TEST_CASE("with little address space, larger slots are used", "[process][arena]") {
  constexpr std::uint64_t kLimit = 4 * kMiB;
  const std::uint64_t least = energon::least_arena_footprint(kLimit);
  CHECK(least == 8 * kMiB - page_bytes());
  CHECK_THROWS_AS(energon::arena_footprint(kLimit, least - 1), Error);
  std::uint64_t before = 0;
  for (const std::uint64_t reserve : {least, 2 * least, 8 * least}) {
    CAPTURE(reserve);
    CHECK(energon::arena_footprint(kLimit, reserve) <= reserve);
    ArenaOptions options = limits(kLimit, kMiB);
    options.reserve_bytes = reserve;
    Arena arena(options);
    std::vector<SlotLease> kept;
    try {
      while (kept.size() < 1000) {
        kept.push_back(arena.parent->lease(arena.publish(100'000)));
      }
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Catch::Contains("ulimit -v"));
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {  // none lies over another
      CHECK(payload_matches(0, 100'000, kept[i].bytes));
    }
    CHECK(kept.size() > before);  // 6 sizes hold them, so at least 6
    CHECK(kept.size() >= 6);
    before = kept.size();
    kept.clear();
    CHECK(arena.parent->lease(arena.publish(kLimit)).bytes.size() == kLimit);
  }
  // The limit alone.
  CHECK(before == kLimit / energon::align_up(100'000, page_bytes()));
}

TEST_CASE("a lease outlives both halves of the arena", "[process][arena]") {
  auto arena = std::make_unique<Arena>(limits(kMiB, kMiB));
  const SlotLease lease = arena->parent->lease(arena->publish(70000));
  arena.reset();
  CHECK(payload_matches(0, 70000, lease.bytes));
}

TEST_CASE("slots are whole pages, and free slots return whole pages", "[process][arena]") {
  Arena arena(limits(4 * kMiB, 0));
  const std::uint64_t before = allocated(arena.memory->fd());
  ByteStream random(11);
  std::vector<SlotLease> kept;
  for (int i = 0; i < 300; ++i) {  // of all sizes, so most pages were touched for another one
    const std::uint64_t size = random.next() % (std::uint64_t{1} << (10 + i % 11));
    kept.push_back(arena.parent->lease(arena.publish(size)));
    REQUIRE(reinterpret_cast<std::uintptr_t>(kept.back().bytes.data()) % page_bytes() == 0);
    if (kept.size() == 3) {
      kept.erase(kept.begin());
    }
    REQUIRE(allocated(arena.memory->fd()) <= before + 4 * kMiB + kMiB / 2);  // and the return ring
  }
  kept.clear();
  arena.worker->collect();
  CHECK(arena.worker->touched_bytes() == 0);
  CHECK(allocated(arena.memory->fd()) <= before + kMiB / 2);
}

TEST_CASE("after leave(), leases keep only their own pages", "[process][arena]") {
  const bool worker_has_ended = GENERATE(true, false);
  CAPTURE(worker_has_ended);
  auto arena = std::make_unique<Arena>(limits(64 * kMiB, 64 * kMiB));
  std::vector<SlotLease> kept;
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t size : {100, 2'000'000, 5'000, 9'000'000, 0, 70'000, 4'500'000}) {
    kept.push_back(arena->parent->lease(arena->publish(size)));
    arena->parent->lease(arena->publish(3'000'000));  // returned at once
    sizes.push_back(size);
  }
  const energon::UniqueFd watch(::fcntl(arena->memory->fd(), F_DUPFD_CLOEXEC, 0));
  const std::uint64_t before = allocated(watch.get());
  arena->worker.reset();
  arena->parent->leave(worker_has_ended);
  CHECK(arena->memory->fd() == -1);
  arena.reset();
  const auto expected = [&] {
    std::uint64_t held = 0;
    for (const std::uint64_t size : sizes) {
      held += energon::align_up(size, 4096);  // touched, on any system
    }
    return worker_has_ended ? held : before;
  };
  CHECK(allocated(watch.get()) == expected());
  while (!kept.empty()) {  // from the middle, and in another thread
    const std::size_t at = kept.size() / 2;
    CHECK(payload_matches(0, sizes[at], kept[at].bytes));
    std::thread([lease = std::move(kept[at])]() mutable { lease = {}; }).join();
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(at));
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(at));
    CHECK(allocated(watch.get()) == expected());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      REQUIRE(payload_matches(0, sizes[i], kept[i].bytes));
    }
  }
}

TEST_CASE("threads end leases during leave()", "[process][arena][threads]") {
  for (int round = 0; round < 100; ++round) {
    auto arena = std::make_unique<Arena>(limits(4 * kMiB, kMiB));
    std::vector<SlotLease> kept;
    for (std::uint64_t i = 0; i < 40; ++i) {
      kept.push_back(arena->parent->lease(arena->publish(5'000 + i * 1'000)));
    }
    bool is_right = true;
    std::thread ender([&] {
      for (std::uint64_t i = 0; i < kept.size(); ++i) {
        is_right = is_right && payload_matches(0, 5'000 + i * 1'000, kept[i].bytes);
        kept[i] = {};
      }
    });
    arena->worker.reset();
    arena->parent->leave(true);
    arena.reset();
    ender.join();
    REQUIRE(is_right);
  }
}

TEST_CASE("an arena of a tebibyte has sane arithmetic", "[process][arena]") {
  const std::uint64_t tebibyte = std::uint64_t{1} << 40;
  CHECK(energon::arena_footprint(tebibyte) > tebibyte);
  CHECK(energon::arena_footprint(tebibyte) < tebibyte * 64);
  CHECK_THROWS_AS(energon::arena_footprint(tebibyte + 1), Error);
  CHECK_THROWS_AS(energon::arena_footprint(100), Error);
}

TEST_CASE("several threads drop leases while the worker waits for them",
          "[process][arena][threads]") {
  energon::ParentEndpoint parent(small_channel());
  const auto worker = attach_here(parent);
  const StreamOptions stream{.worker = 5, .count = 1500, .largest = 100000};
  std::thread producer([&] {
    try {
      send_stream(*worker, stream, {hang_limit()});
    } catch (const Error&) {  // the parent then misses units
    }
    worker->close();
  });
  std::uint64_t received = 0;
  std::deque<std::thread> droppers;
  for (; received < stream.count; ++received) {
    SlotLease lease;
    if (take_unit(parent, stream, received, {hang_limit()}, &lease) != energon::RingStatus::kItem) {
      break;
    }
    if (received % 16 == 0) {  // this lease dies in another thread, at any time
      droppers.emplace_back([held = std::move(lease)]() mutable { held = {}; });
    }
    if (droppers.size() > 3) {
      droppers.front().join();
      droppers.pop_front();
    }
  }
  for (std::thread& dropper : droppers) {
    dropper.join();
  }
  producer.join();
  CHECK(received == stream.count);
}
