// A worker process with its channel, and the functions of workers in the channel tests.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "energon/process/fail_point.h"
#include "energon/process/fork_server.h"
#include "energon/process/worker_channel.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/energon/process/synthetic_stream.h"

namespace energon::testing {

/// Units in the stream of a worker.
inline constexpr std::uint64_t kCount = 400;

StreamOptions stream_of(int worker);

/// Sends every command back, until the channel is closed.
void echo_commands(WorkerEndpoint& worker, const Wait& wait);

/// A worker's main function: sends its stream with the fail point `site`, if any, armed. At
/// "command.received" it answers commands instead.
int run_worker(WorkerStart& start, std::string_view site, FailAction action, std::uint64_t nth);
int plain_worker(WorkerStart& start);

RingStatus send_command(ParentEndpoint& parent, std::string_view text, const Wait& wait);

struct RunningWorker {
  RunningWorker(ForkServer& server, int id, std::uint64_t generation = 0);

  Wait wait() const { return {hang_limit(), gone}; }

  /// Takes units until none is left; returns how the last wait ended.
  RingStatus drain();

  ParentEndpoint channel{small_channel()};
  WorkerProcess worker;
  std::array<int, 2> gone;
  std::uint64_t received = 0;
};

}  // namespace energon::testing
