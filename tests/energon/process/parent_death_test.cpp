// The parent is killed at random moments, whatever its workers are doing.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include <catch2/catch.hpp>

#include "energon/process/fork_server.h"
#include "energon/process/worker_channel.h"
#include "io/error.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/energon/process/synthetic_stream.h"

using energon::Error;
using energon::ForkServer;
using energon::ParentEndpoint;
using energon::WorkerEndpoint;
using energon::WorkerProcess;
using energon::WorkerStart;
using namespace energon::testing;

namespace {

enum Role : int { kIdle, kWriting, kBlocked, kHanging, kRoles };

const StreamOptions kEndless{.worker = 0, .count = ~std::uint64_t{0}, .largest = 3000};

int worker_main(WorkerStart& start) {
  WorkerEndpoint channel(std::move(start.descriptors));
  const energon::Wait wait{energon::kNever, start.watch->descriptors()};
  switch (static_cast<Role>(start.worker_id)) {
    case kIdle:
      channel.commands().read(wait);
      break;
    case kWriting:
    case kBlocked:
      send_stream(channel, kEndless, wait);
      break;
    case kHanging:
    case kRoles:
      for (std::atomic<bool> forever{true}; forever;) {
      }
  }
  return 0;
}

/// Makes what a loader makes, and then consumes one worker's stream until it is killed.
void be_a_parent() {
  ForkServer server(worker_main);
  std::vector<std::unique_ptr<ParentEndpoint>> channels;
  std::vector<WorkerProcess> workers;
  for (int role = 0; role < kRoles; ++role) {
    channels.push_back(std::make_unique<ParentEndpoint>(small_channel()));
    workers.push_back(server.spawn(
        {.worker_id = role, .descriptors = channels.back()->descriptors()}, hang_limit()));
  }
  for (std::uint64_t index = 0;; ++index) {
    take_unit(*channels[kWriting], kEndless, index, {hang_limit()});
  }
}

}  // namespace

TEST_CASE_METHOD(ProcessFixture, "after the parent's death every worker is gone within a second",
                 "[process][parent_death][fork]") {
  // Orphans become our children, so that none can hide.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  ByteStream random(11);
  int late = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const pid_t parent = ::fork();
    if (parent == 0) {
      try {
        be_a_parent();
      } catch (...) {
      }
      ::_exit(1);
    }
    const std::chrono::microseconds moment(random.next() % 25000);
    energon::wait_any({}, energon::deadline_after(moment));
    ::kill(parent, SIGKILL);
    late += eventually([] { return no_children(true); }, std::chrono::seconds(1)) ? 0 : 1;
    REQUIRE(eventually([] { return no_children(true); }));
  }
  CHECK(late == 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}
