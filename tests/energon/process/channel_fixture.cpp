#include "tests/energon/process/channel_fixture.h"

#include <cstring>

namespace energon::testing {

StreamOptions stream_of(int worker) {
  return {.worker = static_cast<std::uint64_t>(worker), .count = kCount};
}

void echo_commands(WorkerEndpoint& worker, const Wait& wait) {
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

int run_worker(WorkerStart& start, std::string_view site, FailAction action, std::uint64_t nth) {
  WorkerEndpoint worker(std::move(start.descriptors));
  const Wait wait{kNever, start.watch->descriptors()};
  if (!site.empty() && site != "worker.init") {
    arm_fail_point(site, action, nth);
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

RingStatus send_command(ParentEndpoint& parent, std::string_view text, const Wait& wait) {
  const RingSpace space = parent.commands().begin(text.size(), wait);
  if (space.status == RingStatus::kItem) {
    std::memcpy(space.bytes.data(), text.data(), text.size());
    parent.commands().commit();
  }
  return space.status;
}

RunningWorker::RunningWorker(ForkServer& server, int id, std::uint64_t generation)
    : worker(server.spawn(
          {.worker_id = id, .generation = generation, .descriptors = channel.descriptors()},
          hang_limit())),
      gone{worker.fd(), server.fd()} {}

RingStatus RunningWorker::drain() {
  RingStatus status = RingStatus::kItem;
  while ((status = take_unit(channel, stream_of(worker.worker_id), received, wait())) ==
         RingStatus::kItem) {
    ++received;
  }
  return status;
}

}  // namespace energon::testing
