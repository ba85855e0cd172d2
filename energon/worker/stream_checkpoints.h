// The checkpoints of streams: when one is due (CheckpointInterval), which ones a worker keeps for
// each of its streams (StreamCheckpoints), and which ones the trainer's process keeps
// (CheckpointHistory, KeptPosition).

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/process/checkpoint_ring.h"
#include "energon/process/worker_channel.h"
#include "energon/state/byte_codec.h"
#include "energon/worker/loader_options.h"
#include "io/concurrency.h"

namespace energon {

/// A batch that was made, as CheckpointInterval sees it.
struct MadeBatch {
  std::int64_t index = 0;   ///< batches of the stream up to and including this one, in all epochs
  std::uint64_t bytes = 0;  ///< its size
  bool is_first_of_epoch = false;
  /// How long a replay would take to make it again: the time that making it took, or zero if the
  /// pipeline skips over references (Dataset::skip_makes_items()).
  std::chrono::nanoseconds replay_time{0};
};

enum class CheckpointDue : std::uint8_t {
  kNo,
  kIfRoom,  ///< it shortens a replay, but nobody should wait for the room to store it
  kYes,
};

/// Decides how often the state of a stream is stored while its batches are made. Reads no clock:
/// the caller measures. Not thread-safe.
class CheckpointInterval {
 public:
  /// After this many batches a checkpoint is due even if they are small.
  static constexpr std::int64_t kMostBatches = 32;
  /// A replay that takes less time than this is not worth a checkpoint.
  static constexpr std::chrono::milliseconds kLeastReplay{100};
  /// A replay may take this many times as long as storing a checkpoint, so that storing takes at
  /// most a twentieth of the time.
  static constexpr int kReplayPerStore = 20;

  /// `every_batches`: 0 means after the first batch of each epoch. Absent: as soon as the batches
  /// since the last checkpoint have eight times as many bytes as that checkpoint, and either 64 KiB
  /// or kMostBatches. This is after each batch, unless batches are small or shuffle buffers are
  /// large. If there is room, also as soon as making them again would take at least kLeastReplay
  /// and kReplayPerStore times as long as storing that checkpoint took.
  explicit CheckpointInterval(std::optional<std::int64_t> every_batches)
      : every_batches_(every_batches) {}

  /// Whether a checkpoint is due after `batch`. Call it once per batch.
  CheckpointDue due(const MadeBatch& batch);

  /// Records that a checkpoint of `size_bytes` was stored after `index` batches, which took
  /// `store_time`.
  void stored(std::int64_t index, std::uint64_t size_bytes, std::chrono::nanoseconds store_time);

 private:
  bool is_worth_its_bytes(std::int64_t batches) const;
  bool is_worth_its_time() const;

  const std::optional<std::int64_t> every_batches_;

  // Of the last checkpoint.
  std::int64_t last_index_ = 0;
  std::uint64_t last_size_ = 0;
  std::chrono::nanoseconds store_time_{0};
  // Of the batches since then.
  std::uint64_t bytes_moved_ = 0;
  std::chrono::nanoseconds replay_time_{0};
};

/// The checkpoints that a worker keeps for a stream: when one is stored, and which one answers
/// get_checkpoint. due() and store() are called by the worker's main thread, newest_not_after() by
/// its command thread.
class WorkerCheckpoints {
 public:
  /// `ring` must outlive this object. `slots`: number of checkpoints that the ring always keeps; it
  /// keeps older ones as history.
  /// `every_batches`: as in CheckpointInterval.
  WorkerCheckpoints(CheckpointWriter& ring, std::size_t slots,
                    std::optional<std::int64_t> every_batches)
      : ring_(ring), slots_(slots), interval_(every_batches) {}

  /// See CheckpointInterval::due().
  CheckpointDue due(const MadeBatch& batch) { return interval_.due(batch); }

  /// The index of the checkpoint that will be the oldest of those always kept once another one is
  /// stored; nullopt while there are fewer. Called by the worker's main thread.
  std::optional<std::uint64_t> oldest_after_store() const;

  /// Stores `checkpoint` in the ring. `begin` is when the worker began to make
  /// it.
  void store(const SavableDatasetCheckpoint& checkpoint,
             std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now());
  /// Stores the position of `stream`.
  void store(const PositionedDataset& stream);

  /// The index of the newest stored checkpoint that is at most `delivered`; nullopt if there is
  /// none.
  std::optional<std::uint64_t> newest_not_after(std::uint64_t delivered) const;

 private:
  CheckpointWriter& ring_;
  const std::size_t slots_;

  CheckpointInterval interval_;
  ByteWriter writer_;  // reused to avoid allocations

  mutable Mutex mutex_;  // both threads are in this process
  std::deque<std::uint64_t> indexes_ ENERGON_GUARDED_BY(mutex_);  // of the stored ones, ascending
};

/// The checkpoints of all streams of a worker, by the stream's number in the rank. Thread rules as
/// those of WorkerCheckpoints.
class StreamCheckpoints {
 public:
  /// `channel` must outlive this object.
  StreamCheckpoints(WorkerEndpoint& channel, const LoaderOptions& options, int worker);

  WorkerCheckpoints& of(std::size_t stream) { return streams_.at((stream - worker_) / workers_); }
  const WorkerCheckpoints& of(std::size_t stream) const {
    return streams_.at((stream - worker_) / workers_);
  }

 private:
  const std::size_t worker_;
  const std::size_t workers_;
  std::deque<WorkerCheckpoints> streams_;  // neither copied nor moved
};

// The checkpoints of a rank's streams that are kept in the trainer's process: those of pipelines
// that run in it, and those that workers left when they ended.
//
// Together with the rings of running workers they lead back to every batch that the rank can go
// back to. For each stream the checkpoints have no gaps: the position after some batches is the
// newest checkpoint not after them, and the number of batches since. So only the oldest ones are
// ever given up.

/// Thread-safe.
class CheckpointHistory {
 public:
  /// `bytes_per_stream`: maximum size of the checkpoints of a stream. The newest two are kept
  /// whatever their size: of a batch that is not delivered yet, and the one before it.
  explicit CheckpointHistory(std::uint64_t bytes_per_stream)
      : bytes_per_stream_(bytes_per_stream) {}

  /// Forgets everything. Stream i begins at `starts[i]`.
  void begin(std::span<const SavableDatasetCheckpoint> starts);

  /// Adds a checkpoint of `stream`, which is not older than the last one. Returns its size.
  std::uint64_t add(std::size_t stream, const SavableDatasetCheckpoint& checkpoint);
  /// The same, encoded. Throws Error (kCorruptData) if the bytes are too short.
  void add(std::size_t stream, std::string bytes);

  /// Forgets what is only needed for positions of `stream` before `position`.
  void forget_before(std::size_t stream, const CheckpointPlace& position);
  /// Forgets the checkpoints of `stream` that do not lead to `position`.
  void forget_after(std::size_t stream, const CheckpointPlace& position);
  /// Forgets all checkpoints of `stream`.
  void forget(std::size_t stream);

  struct Kept {
    CheckpointPlace place;
    std::string bytes;  ///< the encoded checkpoint
  };
  /// The newest checkpoint of `stream` that leads to `position`; nullopt if there is none.
  std::optional<Kept> newest(std::size_t stream, const CheckpointPlace& position) const;

  /// The place of the oldest checkpoint of `stream`; nullopt if there is none.
  std::optional<CheckpointPlace> oldest(std::size_t stream) const;

 private:
  struct Stream {
    std::deque<Kept> kept;  // in the order of their places; of equal ones the newer one is last
    std::uint64_t bytes = 0;
  };

  void add_to(Stream& stream, Kept checkpoint) const ENERGON_REQUIRES(mutex_);

  const std::uint64_t bytes_per_stream_;
  mutable Mutex mutex_;
  std::vector<Stream> streams_ ENERGON_GUARDED_BY(mutex_);
  ByteWriter writer_ ENERGON_GUARDED_BY(mutex_);  // reused to avoid allocations
};

// When the position of a stream that runs in the caller's process is stored: the counterpart of a
// worker's checkpoints. It is needed because a failed pipeline may have consumed samples that it
// did not deliver, so its own position is too late, and because the positions before the last one
// can be asked for.

/// Not thread-safe.
class KeptPosition {
 public:
  /// Positions of stream `stream` go to `history`, which must outlive this object. `every_batches`:
  /// as in CheckpointInterval.
  KeptPosition(CheckpointHistory& history, std::size_t stream,
               std::optional<std::int64_t> every_batches)
      : history_(history), stream_(stream), interval_(every_batches) {}

  /// See CheckpointInterval::due(). There is always room.
  bool due(const MadeBatch& batch) { return interval_.due(batch) != CheckpointDue::kNo; }

  /// Keeps the position of `stream`.
  void keep(const PositionedDataset& stream);

 private:
  CheckpointHistory& history_;
  const std::size_t stream_;
  CheckpointInterval interval_;
};

}  // namespace energon
