// The position of one rank's loader, exact to the batch.
//
// The position of each logical shard is a pair (state, offset): the state of its pipeline after
// some batch, and how many batches were delivered after that one. docs/formats/checkpoint.md gives
// the file format.
//
// Also defines the rule by which logical shards take turns (Turns), and states of this form for
// sources of batches without logical shards (source_state()).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "energon/checkpoint/certificate.h"
#include "energon/state/savable.h"
#include "energon/state/state.h"
#include "io/byte_codec.h"
#include "io/json.h"

namespace energon {

// Turns: the order in which the logical shards of a rank (or of one worker) deliver their batches.
//
// The next batch comes from the logical shard with the fewest epochs, then the fewest turns in that
// epoch, then the lowest number. While all have batches, this is round robin, like Energon's
// next_worker_id. A logical shard that reached the end of its epoch is skipped until all have
// reached it. The rule depends only on (epoch, turn, logical shard), so any subset of the logical
// shards has the same relative order as the whole. A worker that runs some of a rank's logical
// shards therefore makes batches in the order in which the parent takes them, and a job can
// continue with the logical shards on other ranks.

/// A logical shard's place in that order.
struct Turn {
  std::int64_t epoch = 0;  ///< epoch of its next batch, after those it has ended
  std::int64_t count = 0;  ///< turns it had in that epoch

  bool operator==(const Turn&) const = default;
};

/// For logical shards 0 … n - 1, in the order of their logical shards. Not thread-safe.
class Turns {
 public:
  Turns() = default;
  /// Starts at `epoch`. Logical shards that are in a later epoch have no more batches in it.
  Turns(std::vector<Turn> turns, std::int64_t epoch) : turns_(std::move(turns)), epoch_(epoch) {}

  /// The logical shard whose turn is next; nullopt once all have reached the end of the epoch.
  std::optional<std::size_t> next() const;

  /// Records that logical shard `local_index` delivered a batch.
  void take(std::size_t local_index) { ++turns_[local_index].count; }
  /// Undoes take().
  void give_back(std::size_t local_index) { --turns_[local_index].count; }
  /// Records that logical shard `local_index` reached the end of its epoch.
  void end_epoch(std::size_t local_index) {
    turns_[local_index] = {turns_[local_index].epoch + 1, 0};
  }
  /// Begins the next epoch. Requires: next() returns nullopt.
  void start_epoch() { ++epoch_; }

  std::int64_t epoch() const { return epoch_; }
  const Turn& of(std::size_t local_index) const { return turns_[local_index]; }

 private:
  std::vector<Turn> turns_;
  std::int64_t epoch_ = 0;
};

/// The position of one logical shard.
struct SavableDatasetCheckpoint {
  std::optional<State> state;  ///< of the pipeline; nullopt for its start
  std::int64_t index = 0;      ///< batches emitted before `state`, in all epochs
  std::int64_t epoch = 0;      ///< epoch of `state`
  std::int64_t offset = 0;     ///< batches delivered after `state`

  int logical_shard = 0;
  Turn turn = {};                ///< turn of its next batch
  Certificate certificate = {};  ///< of everything it delivered

  /// Whether nothing was delivered.
  bool is_start() const { return !state && offset == 0 && turn == Turn(); }

  bool operator==(const SavableDatasetCheckpoint&) const = default;
};

/// A value type, comparable.
struct SavableDataLoaderState {
  /// The settings and data that the position belongs to: SavableDataLoader::config() without the
  /// members that do not affect the order.
  BoxedJson config;  // a Config
  /// One per logical shard of the rank, in order; by default one per worker.
  std::vector<SavableDatasetCheckpoint> checkpoints;
  /// Index in `checkpoints` of the logical shard whose turn is next (not of a worker; the name
  /// comes from Energon). Derived from the turns, and checked against them on restore.
  std::int64_t next_worker_id = 0;
  std::int64_t epoch = 0;  ///< epochs before this one
  bool epoch_finished =
      false;  ///< the end of the epoch was reported; the next batch belongs to the next epoch
  std::int64_t batch_index = 0;  ///< batches delivered by this rank, in all epochs
  /// Steps of the job in this epoch. A step is one batch from every rank that had one. nullopt if
  /// not known.
  std::optional<std::int64_t> step_in_epoch = 0;
  std::optional<std::int64_t> micro_batch_size;  ///< samples per batch; nullopt if not batched
  /// The positions of the adapters over the loader, outermost first, without children. The other
  /// members are the position of the loader, from which the adapters continue.
  std::vector<State> adapters = {};

  bool operator==(const SavableDataLoaderState& other) const;
};

/// Checks conditions that hold for every state saved by a loader. Every function that reads a state
/// from bytes or JSON calls it. Throws Error (kCorruptData) with the path of the invalid element,
/// which begins with `path`: the configuration (check_config()), a count, or a next_worker_id that
/// is not next_worker_id_of(). Counts of batches, also when converted to samples, are at most 2^42,
/// epoch counts and the micro batch size at most 2^31 - 1, so that no sum or product overflows.
void check_loader_state(const SavableDataLoaderState& state, const std::string& path);

/// The value of next_worker_id that follows from the turns of the checkpoints; 0 if all of them
/// have reached the end of the epoch.
std::int64_t next_worker_id_of(const SavableDataLoaderState& state);

/// The certificate of everything that the rank delivered.
Certificate certificate_of(const SavableDataLoaderState& state);

/// A place in an epoch.
struct EpochStep {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< batches of the rank in that epoch

  bool operator==(const EpochStep&) const = default;
};

/// The place of the rank in its epoch: that of the outermost adapter that counts, else that of the
/// loader. Ranks of one checkpoint that are in the same epoch are at the same step. nullopt if the
/// rank has no batch left in its epoch, or if its step is not known.
std::optional<EpochStep> epoch_step(const SavableDataLoaderState& state);

/// Converts the position of a pipeline (state, index, epoch, offset) to bytes and back. Used in
/// files, in the checkpoint ring, and in messages to a worker. decode_checkpoint() throws Error
/// (kCorruptData).
void encode_checkpoint(ByteWriter& writer, const SavableDatasetCheckpoint& checkpoint);
SavableDatasetCheckpoint decode_checkpoint(ByteReader& reader);

/// The place of a checkpoint or position. The index alone is ambiguous, because an epoch may pass
/// without a batch.
struct CheckpointPlace {
  std::int64_t index = 0;  ///< batches over all epochs
  std::int64_t epoch = 0;  ///< epoch of the next batch

  auto operator<=>(const CheckpointPlace&) const = default;

  /// Whether the logical shard can continue from here to `position`.
  bool leads_to(const CheckpointPlace& position) const {
    return index <= position.index && epoch <= position.epoch;
  }
};
inline CheckpointPlace place_of(const SavableDatasetCheckpoint& checkpoint) {
  return {checkpoint.index, checkpoint.epoch};
}
/// The place of an encoded position, of which the first kBytesOfPlace bytes suffice. Throws like
/// decode_checkpoint().
CheckpointPlace place_of_checkpoint(std::string_view encoded);
inline constexpr std::size_t kBytesOfPlace = 16;

/// Converts to the file form and back: version 1, see loader_state.cpp.
/// decode_loader_state() throws Error: kCorruptData (truncated, damaged, not a state), kUnsupported
/// (a newer version; the message has both version numbers).
std::string encode_loader_state(const SavableDataLoaderState& state);
SavableDataLoaderState decode_loader_state(std::string_view bytes);

/// Writes atomically: a reader finds the old or the new file, never a mixture. Throws Error (kIo).
void write_loader_state(const std::string& path, const SavableDataLoaderState& state);
/// Throws Error with the path: kNotFound, kIo, and those of decode_loader_state().
SavableDataLoaderState read_loader_state(const std::string& path);

/// A description for people.
nlohmann::ordered_json describe_loader_state(const SavableDataLoaderState& state);

// The state of a source of batches with its own position, without logical shards.
//
// It has the form of a loader's state, so files, adapters and protocols treat it like one: a single
// logical shard whose pipeline state is the position. Its configuration has a member `source`, the
// type of that position. It cannot be rescaled.

/// The source of the position.
struct SourcePlace {
  int rank = 0;
  int world_size = 1;
  /// What the sources of all ranks must share, an object; null means nothing.
  BoxedJson common_settings = {};
};

/// Makes a state from the position of a source, which is at `at`; batches are counted in this epoch
/// only. `position` has no children. Throws Error (kInvalidArgument).
SavableDataLoaderState source_state(State position, const EpochStep& at,
                                    const SourcePlace& place = {});

/// Whether `config` is the configuration of such a state.
bool is_source_config(const Config& config);

/// The position in such a state; null if `state` belongs to a loader.
const State* source_position(const SavableDataLoaderState& state);

/// The types of the adapters and the source of a state, such as "Shard over Loader".
std::string source_kind(const SavableDataLoaderState& state);

}  // namespace energon
