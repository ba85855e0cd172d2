// Everything one worker shares with the parent, in one sparse reservation.
//
//   parent                                                worker
//   commands()   ──────── command ring ────────>          commands()      command thread
//   results()    <─────── result ring  ─────────          results()       command thread
//   samples()    <─────── sample ring  ─────────          samples()       main thread
//   arena()      <─────── slots in the arena ───          arena()         main thread
//                ──────── return ring  ────────>          (in arena())
//   checkpoints()<─────── checkpoint rings ─────          checkpoints()   main thread
//   status()     <─────── status words ─────────          status()        main thread
//   statistics() <─────── bytes of the loader ──          statistics()    main thread
//
// The parent makes the channel, hands descriptors() to ForkServer::spawn(), and keeps its endpoint;
// the worker opens its endpoint from the descriptors. A replacement worker gets a fresh channel.
// After a worker's death everything committed can still be read. Four doorbells, one per waiting
// thread: parent samples, parent commands, worker main thread, worker command thread.
//
// Layout: docs/formats/shared_memory.md.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "energon/process/arena.h"
#include "energon/process/checkpoint_ring.h"
#include "energon/process/message_ring.h"
#include "energon/process/shared_memory.h"
#include "energon/process/slot_lease.h"
#include "energon/process/worker_status.h"
#include "io/unique_fd.h"

namespace energon {

struct ChannelHeader;

/// Size of the area for what the loader counts; its layout is the loader's
/// (energon/worker/statistics_block.h).
inline constexpr std::uint64_t kStatisticsBytes = 3 * kPageBytes;

/// Sizes of rings are powers of two from 4096 up; a unit may take half of its ring.
struct ChannelOptions {
  /// Samples (ring units) the worker may be ahead of the parent. At least 1.
  std::uint64_t prefetch_units = 4;

  /// Bytes of unit descriptors in flight; payloads lie in the arena.
  std::uint64_t sample_ring_bytes = std::uint64_t{1} << 20;

  /// Bytes of commands in flight.
  std::uint64_t command_ring_bytes = std::uint64_t{64} << 10;

  /// Bytes of answers in flight.
  std::uint64_t result_ring_bytes = std::uint64_t{1} << 20;

  /// Checkpoint rings: one for each stream that the worker makes. At least 1.
  std::uint64_t checkpoint_rings = 1;
  CheckpointRingOptions checkpoints = {};
  ArenaOptions arena = {};
};

/// Address space of a channel.
std::uint64_t channel_footprint(const ChannelOptions& options);

/// The parent's end. samples() and arena().lease() are for one thread at a time, commands() and
/// results() for one thread at a time (not necessarily the same one); the rest is thread-safe. In a
/// forked child of the parent every ring call throws Error (kCancelled).
class ParentEndpoint {
 public:
  /// Makes the memory and the doorbells. Throws Error: kInvalidArgument for wrong sizes,
  /// kResourceExhausted if limits of the system do not allow it.
  explicit ParentEndpoint(const ChannelOptions& options);
  /// Closes. Leases stay valid.
  ~ParentEndpoint();
  ParentEndpoint(const ParentEndpoint&) = delete;
  ParentEndpoint& operator=(const ParentEndpoint&) = delete;

  RingWriter& commands() { return *commands_; }
  RingReader& results() { return *results_; }
  RingReader& samples() { return *samples_; }
  ArenaReader& arena() { return *arena_; }
  const CheckpointReader& checkpoints(std::size_t ring = 0) const { return checkpoints_.at(ring); }
  const WorkerStatus& status() const;
  /// kStatisticsBytes, zero at first, page-aligned. Valid as long as memory().
  std::span<std::byte> statistics() const { return statistics_; }

  /// What the worker needs, for SpawnRequest::descriptors. Owned by this object.
  std::vector<int> descriptors() const;
  const std::shared_ptr<SharedMemory>& memory() const { return memory_; }

  /// Tells the worker to end: closes all rings, which wakes whoever waits on one, on both sides.
  /// Idempotent, thread-safe.
  void close();

 private:
  std::shared_ptr<SharedMemory> memory_;
  std::vector<std::shared_ptr<const Doorbell>> doorbells_;
  ChannelHeader* header_ = nullptr;
  std::unique_ptr<RingWriter> commands_;
  std::unique_ptr<RingReader> results_;
  std::unique_ptr<RingReader> samples_;
  std::unique_ptr<ArenaReader> arena_;
  std::vector<CheckpointReader> checkpoints_;
  std::span<std::byte> statistics_;
  OwnerProcess owner_;
};

/// The worker's end. Main thread: samples(), arena(), checkpoints(), status(). Command thread:
/// commands(), results(). Any thread: closing(), close().
class WorkerEndpoint {
 public:
  /// Takes over the descriptors that ParentEndpoint::descriptors() named. Throws Error:
  /// kInvalidArgument for a wrong number, kCorruptData if the memory holds no channel of this
  /// build, kResourceExhausted if it cannot be mapped.
  explicit WorkerEndpoint(std::vector<UniqueFd> descriptors);
  ~WorkerEndpoint();
  WorkerEndpoint(const WorkerEndpoint&) = delete;
  WorkerEndpoint& operator=(const WorkerEndpoint&) = delete;

  RingReader& commands() { return *commands_; }
  RingWriter& results() { return *results_; }
  RingWriter& samples() { return *samples_; }
  /// Its acquire() knows when the parent waits for a sample (ArenaOptions::starvation_limit).
  ArenaWriter& arena() { return *arena_; }
  CheckpointWriter& checkpoints(std::size_t ring = 0) { return checkpoints_.at(ring); }
  WorkerStatus& status();
  std::span<std::byte> statistics() const { return statistics_; }

  /// True once the parent closed the channel.
  bool closing() const;

  /// Ends the streams to the parent after what is committed, and wakes both threads of the worker.
  void close();

 private:
  std::shared_ptr<SharedMemory> memory_;
  std::vector<std::shared_ptr<const Doorbell>> doorbells_;
  ChannelHeader* header_ = nullptr;
  std::unique_ptr<RingReader> commands_;
  std::unique_ptr<RingWriter> results_;
  std::unique_ptr<RingWriter> samples_;
  std::unique_ptr<ArenaWriter> arena_;
  std::vector<CheckpointWriter> checkpoints_;
  std::span<std::byte> statistics_;
};

}  // namespace energon
