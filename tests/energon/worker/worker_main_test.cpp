// A worker that receives incomplete commands reports them, and waits to be ended.

#include "energon/worker/worker_main.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/process/message_ring.h"
#include "energon/process/worker_channel.h"
#include "energon/worker/channel_sizes.h"
#include "energon/worker/protocol.h"
#include "energon/worker/statistics_block.h"
#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"

using energon::BatchHead;
using energon::Command;
using energon::CommandKind;
using energon::Error;
using energon::ErrorCode;
using energon::LoaderOptions;
using energon::RingStatus;
using energon::RingUnit;
using energon::SampleMessage;
using energon::testing::eventually;
using energon::testing::hang_limit;
using energon::testing::LoaderFixture;

namespace {

/// A worker in a thread of this process. Its mappings, which the end of a process would unmap,
/// stay, so these tests do not count them.
class Worker {
 public:
  explicit Worker(const LoaderFixture& fixture) {
    energon::format_statistics(channel.statistics());
    start_.payload = energon::as_bytes(beginning_);
    start_.watch = &watch_;
    for (const int fd : channel.descriptors()) {
      start_.descriptors.emplace_back(::dup(fd));
    }
    thread_ = std::jthread([this, &fixture] {
      exit_code = energon::run_worker(start_, fixture.pipeline(), options_);
    });
  }
  ~Worker() { channel.close(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void send(std::span<const std::byte> bytes) {
    const auto space = channel.commands().begin(bytes.size(), {hang_limit()});
    REQUIRE(space.status == RingStatus::kItem);
    std::memcpy(space.bytes.data(), bytes.data(), bytes.size());
    channel.commands().commit();
  }

  /// Overwrites the published units of the ring of commands, and wakes its reader.
  void damage_command_ring() {
    std::byte* const begin = channel.memory()->data();
    for (std::uint64_t at = 0;; at += alignof(energon::RingHeader)) {
      REQUIRE(at + sizeof(energon::RingHeader) <= channel.memory()->size());
      auto* const header = reinterpret_cast<energon::RingHeader*>(begin + at);
      if (header->magic == energon::kRingMagic) {  // the ring of commands is the first
        header->published = 13;
        break;
      }
    }
    const std::vector<int> descriptors = channel.descriptors();
    for (const int doorbell : std::span(descriptors).subspan(1)) {
      const std::uint64_t one = 1;
      REQUIRE(::write(doorbell, &one, sizeof(one)) == sizeof(one));
    }
  }

  /// The failure that the worker sends after its batches.
  std::optional<Error> failure() {
    while (true) {
      const RingUnit unit = channel.samples().read({hang_limit()});
      if (unit.status != RingStatus::kItem) {
        return std::nullopt;
      }
      BatchHead head;
      std::memcpy(&head, unit.bytes.data(), sizeof(head));
      const std::string rest(energon::as_text(unit.bytes.subspan(sizeof(head))));
      channel.samples().release();
      if (head.kind == SampleMessage::kFailure) {
        return energon::decode_error(rest);
      }
    }
  }

 private:
  const LoaderOptions options_{.worker_config = {.num_workers = 1}};
  const std::string beginning_ = energon::encode_assignment({.checkpoints = {{}}});
  const energon::ParentWatch watch_{{}};
  energon::WorkerStart start_;

 public:
  energon::ParentEndpoint channel{energon::channel_options(options_, 0)};
  std::atomic<int> exit_code{-1};

 private:
  std::jthread thread_;
};

void check_reported(Worker& worker, const std::string& text) {
  const std::optional<Error> failure = worker.failure();
  REQUIRE(failure);
  CHECK(failure->code() == ErrorCode::kCorruptData);
  CHECK_THAT(failure->what(), Catch::Contains(text));
  CHECK_FALSE(eventually([&] { return worker.exit_code >= 0; }, std::chrono::milliseconds(50)));
  worker.channel.close();
  CHECK(eventually([&] { return worker.exit_code == 0; }));
}

}  // namespace

TEST_CASE("a worker reports unreadable commands", "[loader][worker]") {
  // Busy with batches, or waiting for the command to start an epoch.
  const bool repeat = GENERATE(true, false);
  CAPTURE(repeat);
  const LoaderFixture fixture({.batch_size = 2, .repeat = repeat});
  Worker worker(fixture);
  SECTION("a command that is too short") {
    const Command command{.kind = CommandKind::kNextEpoch, .argument = 1};
    worker.send(std::as_bytes(std::span(&command, 1)).first(sizeof(command) - 1));
    check_reported(worker, "a command to a worker has 15 bytes, expected 16");
  }
  SECTION("a command that is too long") {
    const Command command{.kind = CommandKind::kNextEpoch, .argument = 1};
    const std::array<Command, 2> commands{command, command};
    worker.send(std::as_bytes(std::span(commands)));
    check_reported(worker, "a command to a worker has 32 bytes, expected 16");
  }
  SECTION("a command of an unknown kind") {
    const Command command{.kind = static_cast<CommandKind>(77)};
    worker.send(std::as_bytes(std::span(&command, 1)));
    check_reported(worker, "a command to a worker has unknown kind 77");
  }
  SECTION("a damaged ring") {
    worker.damage_command_ring();
    check_reported(worker, "ring");
  }
}

TEST_CASE("a worker without commands ends with its channel", "[loader][worker]") {
  const LoaderFixture fixture({.batch_size = 2});
  Worker worker(fixture);
  worker.channel.close();
  CHECK(eventually([&] { return worker.exit_code == 0; }));
}
