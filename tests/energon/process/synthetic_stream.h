// A stream whose every byte is known: worker w sends unit i with a payload that depends on (w, i).
//
// Used as threads and as processes, so nothing here asserts: it throws std::runtime_error.

#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "energon/process/worker_channel.h"
#include "io/bytes.h"

namespace energon::testing {

/// xorshift64*: cheap, and the same everywhere.
class ByteStream {
 public:
  explicit ByteStream(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint64_t next();

 private:
  std::uint64_t state_;
};

/// Sizes from 0 to `largest`, mostly small.
std::uint64_t payload_size(std::uint64_t worker, std::uint64_t index, std::uint64_t largest);
void fill_payload(std::uint64_t worker, std::uint64_t index, std::span<std::byte> out);
bool payload_matches(std::uint64_t worker, std::uint64_t index, ByteView bytes);

/// The content of a unit of the sample ring.
struct StreamUnit {
  std::uint64_t worker = 0;
  std::uint64_t index = 0;
  SlotReference slot;
};

struct StreamOptions {
  std::uint64_t worker = 0;
  std::uint64_t count = 0;
  std::uint64_t largest = 20000;
  std::uint64_t checkpoint_every = 4;
};

/// Worker side: sends units [0, count), advances the progress after each commit, and writes the
/// index as a checkpoint. Returns the number of units sent, which is smaller if the parent closed
/// or is gone.
std::uint64_t send_stream(WorkerEndpoint& worker, const StreamOptions& options, const Wait& wait);

/// Parent side: takes one unit and checks it. Returns how the wait ended.
RingStatus take_unit(ParentEndpoint& parent, const StreamOptions& options, std::uint64_t expected,
                     const Wait& wait, SlotLease* keep = nullptr);

/// Small sizes, so that wrap-around and full rings are common.
ChannelOptions small_channel();

/// A worker endpoint over duplicates of the descriptors: for threads of one process.
std::unique_ptr<WorkerEndpoint> attach_here(const ParentEndpoint& parent);

}  // namespace energon::testing
