// All memory that one worker shares with the parent, in one sparse reservation.
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
// The parent makes the channel, passes descriptors() to ForkServer::spawn(), and keeps its
// endpoint. The worker opens its endpoint from the descriptors. A replacement worker gets a fresh
// channel. After a worker's death, everything it committed can still be read. There are four
// doorbells, one per waiting thread: parent samples, parent commands, worker main thread, worker
// command thread.
//
// Layout: docs/formats/shared_memory.md.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "energon/process/arena.h"
#include "energon/process/checkpoint_ring.h"
#include "energon/process/message_ring.h"
#include "energon/process/shared_memory.h"
#include "io/file.h"

namespace energon {

// What a worker is doing, in a few words of shared memory that can be read after its death.
//
// Used in messages about hangs and deaths: the worker's progress and its current item. Layout:
// docs/formats/shared_memory.md.

/// The item that a worker is working on. The loader defines its encoding.
struct WorkItem {
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  bool operator==(const WorkItem&) const = default;
};

/// In shared memory, initially zero. Written by the worker's main thread, except for `bytes_read`;
/// read by any process.
struct WorkerStatus {
  alignas(64) std::atomic<std::uint64_t> progress;  // the loader defines what is counted
  std::atomic<std::uint64_t> item_sequence;  // odd while the item changes, 0 before the first
  std::atomic<std::uint64_t> item_first;
  std::atomic<std::uint64_t> item_second;
  std::atomic<std::uint64_t> bytes_read;  // from files, added by any thread of the worker

  void advance();
  void set_item(WorkItem item);

  std::uint64_t progress_count() const;
  std::uint64_t bytes_read_count() const;
  /// nullopt if no item was set, or if the worker is changing it now (or died while changing it).
  std::optional<WorkItem> item() const;
};

static_assert(sizeof(WorkerStatus) == 64);

struct ChannelHeader;

/// Size of the area for the loader's statistics. The loader defines its layout
/// (energon/worker/statistics_block.h).
inline constexpr std::uint64_t kStatisticsBytes = 12'288;

/// Ring sizes are powers of two, at least 4096. A unit may take at most half of its ring.
struct ChannelOptions {
  /// Number of samples (ring units) that the worker may be ahead of the parent. At least 1.
  std::uint64_t prefetch_units = 4;

  /// Weight of samples (their bytes in the arena) that the worker may be ahead, but at least 2
  /// samples. 0: only `prefetch_units` counts.
  std::uint64_t prefetch_bytes = 0;

  /// Whether the parent spins before it sleeps until the next sample (RingReaderOptions::spins).
  bool parent_spins = true;

  /// Bytes of sample messages in flight, without payloads, which are in the arena.
  std::uint64_t sample_ring_bytes = std::uint64_t{1} << 20;

  /// Bytes of commands in flight.
  std::uint64_t command_ring_bytes = std::uint64_t{64} << 10;

  /// Bytes of answers in flight.
  std::uint64_t result_ring_bytes = std::uint64_t{1} << 20;

  /// Number of checkpoint rings: one per stream of the worker. At least 1.
  std::uint64_t checkpoint_rings = 1;
  CheckpointRingOptions checkpoints = {};
  ArenaOptions arena = {};
};

/// Address space of a channel, in bytes.
std::uint64_t channel_footprint(const ChannelOptions& options);

/// The parent's end. Only one thread at a time may use samples() and arena().lease(), and only one
/// thread at a time, possibly another, commands() and results(). The rest is thread-safe. In a
/// forked child of the parent, every ring call throws Error (kCancelled).
class ParentEndpoint {
 public:
  /// Makes the memory and the doorbells. Throws Error: kInvalidArgument for invalid sizes,
  /// kResourceExhausted if system limits do not allow it.
  explicit ParentEndpoint(const ChannelOptions& options);
  /// Closes the channel. Leases stay valid; all other memory may be unmapped.
  ~ParentEndpoint();
  ParentEndpoint(const ParentEndpoint&) = delete;
  ParentEndpoint& operator=(const ParentEndpoint&) = delete;

  RingWriter& commands() { return *commands_; }
  RingReader& results() { return *results_; }
  RingReader& samples() { return *samples_; }
  ArenaReader& arena() { return *arena_; }
  const CheckpointReader& checkpoints(std::size_t ring = 0) const { return checkpoints_.at(ring); }
  const WorkerStatus& status() const;
  /// kStatisticsBytes bytes, initially zero, page-aligned. Valid as long as memory().
  std::span<std::byte> statistics() const { return statistics_; }

  /// The descriptors that the worker needs, for SpawnRequest::descriptors. This object keeps
  /// ownership.
  std::vector<int> descriptors() const;
  const std::shared_ptr<SharedMemory>& memory() const { return memory_; }

  /// Tells the worker to end: closes all rings, which wakes every thread that waits on one, on both
  /// sides. Idempotent, thread-safe.
  void close();

  /// Call this after the end of the worker's process: the destructor then returns all pages that no
  /// lease views to the system (ArenaReader::leave()).
  void set_worker_ended() { worker_has_ended_ = true; }

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
  bool worker_has_ended_ = false;
  OwnerProcess owner_;
};

/// The worker's end. Main thread: samples(), arena(), checkpoints(), status(). Command thread:
/// commands(), results(). Any thread: closing(), close().
class WorkerEndpoint {
 public:
  /// Takes ownership of the worker's duplicates of ParentEndpoint::descriptors(). Throws Error:
  /// kInvalidArgument for a wrong number of descriptors, kCorruptData if the memory holds no
  /// channel of this build, kResourceExhausted if it cannot be mapped.
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
  const std::shared_ptr<SharedMemory>& memory() const { return memory_; }

  /// Whether the parent has closed the channel.
  bool closing() const;

  /// Ends the streams to the parent after the committed units, and wakes both threads of the
  /// worker.
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
