// Refused arguments of the parts of a channel, and the texts of errors of system calls.

#include <cerrno>
#include <memory>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/process/arena.h"
#include "energon/process/checkpoint_ring.h"
#include "energon/process/fork.h"
#include "energon/process/message_ring.h"
#include "energon/process/os_error.h"
#include "energon/process/shared_memory.h"
#include "energon/process/worker_channel.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/error_of.h"

using energon::ChannelOptions;
using energon::CheckpointRingOptions;
using energon::CheckpointWriter;
using energon::Doorbell;
using energon::ErrorCode;
using energon::ProcessEnd;
using energon::RingReader;
using energon::SharedMemory;
using energon::SharedRange;
using energon::UniqueFd;
using energon::testing::error_of;

namespace {

SharedRange range_of(std::uint64_t size) {
  return energon::shared_range(SharedMemory::create(size), 0, size);
}

template <class Call>
std::string refused(const Call& call) {
  return error_of(call, ErrorCode::kInvalidArgument);
}

std::string refused_channel(const ChannelOptions& options) {
  return refused([&] { energon::channel_footprint(options); });
}

}  // namespace

TEST_CASE("memory that is unavailable or missing is refused", "[process][shared_memory]") {
  CHECK(refused([] { SharedMemory::create(0); }) ==
        "shared memory of 0 bytes: expected a size from 1 to 140737488355328");
  const auto memory = SharedMemory::create(4096);
  CHECK(refused([&] { energon::shared_range(memory, memory->size() - 96, 100); }) ==
        fmt::format("[{}, +100) is not inside shared memory of {} bytes", memory->size() - 96,
                    energon::page_bytes()));
}

TEST_CASE("an arena that is too small is refused", "[process][arena]") {
  const std::uint64_t page = energon::page_bytes();
  CHECK(refused([&] { energon::arena_footprint(page - 1, 0); }) ==
        fmt::format("arena_limit_bytes is {} bytes, but must be from {} to 1099511627776", page - 1,
                    page));
  CHECK_THAT(refused([] { energon::arena_footprint(std::uint64_t{1} << 20, 4096); }),
             Catch::StartsWith("an arena of limit 1048576 needs at least ") &&
                 Catch::EndsWith(" bytes of address space, found 4096"));
  const SharedRange small = range_of(4096);
  CHECK_THAT(refused([&] {
               energon::ArenaWriter(small, nullptr, {.limit_bytes = std::uint64_t{1} << 20});
             }),
             Catch::StartsWith("an arena of limit 1048576 needs "));
}

TEST_CASE("checkpoint rings of invalid sizes or orders are refused", "[process][checkpoint]") {
  CHECK_THAT(refused([] { energon::checkpoint_ring_footprint({.slots = 1}); }),
             Catch::StartsWith("n_checkpoints is 1 (from 2 to 65536)"));
  const CheckpointRingOptions options{.slots = 2, .slot_bytes = 5000};
  CHECK_THAT(refused([&] { CheckpointWriter(range_of(4096), options); }),
             Catch::StartsWith("2 checkpoint slots of 5000 bytes do not fit into 4096 bytes"));
  CheckpointWriter writer(range_of(energon::checkpoint_ring_footprint(options)), options);
  writer.write(5, {});
  CHECK(refused([&] { writer.write(4, {}); }) == "checkpoint 4 was stored after checkpoint 5");
}

TEST_CASE("channels of invalid sizes are refused", "[process][channel]") {
  CHECK_THAT(refused_channel({.checkpoint_rings = 0}), Catch::StartsWith("0 checkpoint rings of "));
  CHECK(refused_channel({.prefetch_units = 0}) == "prefetch_units must be at least 1");
  CHECK(refused_channel({.command_ring_bytes = std::uint64_t{1} << 41}) ==
        "a ring of 2199023255552 bytes, expected at most 1099511627776");
  CHECK(refused([] { energon::WorkerEndpoint(std::vector<UniqueFd>{}); }) ==
        "0 descriptors for a worker channel, expected 5");
}

TEST_CASE("the header of a ring is checked word by word", "[process][ring]") {
  constexpr std::uint64_t kCapacity = 4096;
  const SharedRange range = range_of(energon::ring_footprint(kCapacity));
  const auto bell = std::make_shared<Doorbell>();
  const auto damaged = [&](const auto& damage) {
    energon::format_ring(range, kCapacity);
    damage(*reinterpret_cast<energon::RingHeader*>(range.data()));
    return error_of([&] { RingReader(range, bell, bell); }, ErrorCode::kCorruptData);
  };
  CHECK_THAT(damaged([](auto& header) { header.magic = 0; }), Catch::Contains("magic is 0"));
  CHECK_THAT(damaged([](auto& header) { header.version += 1; }), Catch::Contains("version is "));
  CHECK_THAT(damaged([](auto& header) { header.capacity_bytes = 4095; }),
             Catch::Contains("capacity is 4095"));
  CHECK_THAT(damaged([](auto& header) { header.capacity_bytes = 2 * kCapacity; }),
             Catch::Contains("capacity is 8192"));
  const SharedRange tiny = energon::shared_range(range.memory, 0, 64);
  CHECK_THAT(error_of([&] { RingReader(tiny, bell, bell); }, ErrorCode::kCorruptData),
             Catch::Contains("size is 64"));
}

TEST_CASE("errors of system calls name the limit to raise", "[process]") {
  const auto text = [](int number) { return energon::os_error("cannot do it", number).message(); };
  const auto code = [](int number) { return energon::os_error("cannot do it", number).code(); };
  for (const auto& [number, advice] : {std::pair(EMFILE, "ulimit -n"),
                                       {ENFILE, "fs.file-max"},
                                       {EAGAIN, "pids.max"},
                                       {ENOMEM, "arena_limit_bytes"},
                                       {ENOSPC, "checkpoint_slot_bytes"}}) {
    CAPTURE(number, advice);
    CHECK(code(number) == ErrorCode::kResourceExhausted);
    CHECK_THAT(text(number), Catch::StartsWith("cannot do it: ") && Catch::Contains(advice));
  }
  CHECK(code(ENOSYS) == ErrorCode::kUnsupported);
  CHECK_THAT(text(ENOSYS), Catch::Contains("Linux 5.4"));
  CHECK(code(EIO) == ErrorCode::kIo);
}

TEST_CASE("each end of a process has a name", "[process]") {
  CHECK(ProcessEnd{.kind = ProcessEnd::Kind::kExited, .value = 3}.describe() ==
        "exited with code 3");
  CHECK(ProcessEnd{.kind = ProcessEnd::Kind::kKilled, .value = 9}.describe() ==
        "killed by signal 9 (SIGKILL)");
  CHECK(ProcessEnd{.kind = ProcessEnd::Kind::kUnknown}.describe() == "ended with unknown status");
}
