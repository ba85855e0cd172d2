// The position of one rank's loader, exact to the batch.
//
// The position of each logical shard is a pair (state, offset): the state of its pipeline after
// some batch, and how many batches were delivered after that one. docs/formats/checkpoint.md gives
// the file format.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "energon/checkpoint/certificate.h"
#include "energon/checkpoint/turns.h"
#include "energon/state/byte_codec.h"
#include "energon/state/savable.h"
#include "energon/state/state.h"
#include "io/json.h"

namespace energon {

/// The position of one logical shard.
struct SavableDatasetCheckpoint {
  std::optional<State> state;  ///< of the pipeline; nullopt: its start
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
  std::vector<SavableDatasetCheckpoint> streams;
  /// Index in `streams` of the logical shard whose turn is next. Derived from the turns.
  std::int64_t next_worker_id = 0;
  std::int64_t epoch = 0;  ///< epochs before this one
  bool epoch_finished =
      false;  ///< the end of the epoch was reported; the next batch is of the next one
  std::int64_t batch_index = 0;  ///< batches delivered by this rank, in all epochs
  /// Steps of the job in this epoch. A step is one batch from every rank that had one. nullopt: not
  /// known (files of version 1).
  std::optional<std::int64_t> step_in_epoch = 0;
  std::optional<std::int64_t> micro_batch_size;  ///< samples per batch; nullopt: not batched
  /// The positions of the adapters over the loader, outermost first; none have children. The other
  /// members are the position of the loader, which the adapters continue from.
  std::vector<State> adapters = {};

  bool operator==(const SavableDataLoaderState& other) const;
};

/// Checks conditions that hold for every state saved by a loader. Every function that reads a state
/// from bytes or JSON calls it. Throws Error (kCorruptData) with the path of the invalid element,
/// which begins with `path`: the configuration (check_config()) or a count. Counts of batches, also
/// when converted to samples, are at most 2^42. Epoch counts and the micro batch size are at most
/// 2^31 - 1. So no sum or product of them overflows.
void check_loader_state(const SavableDataLoaderState& state, const std::string& path);

/// The certificate of everything that the rank delivered.
Certificate certificate_of(const SavableDataLoaderState& state);

/// A place in an epoch.
struct EpochStep {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< batches of the rank in that epoch

  bool operator==(const EpochStep&) const = default;
};

/// Where the rank stands in an epoch: ranks of one checkpoint that are in the same epoch are at the
/// same step of it. Nothing if the rank has no batch left in its epoch, or if its step is not
/// known. The place is that of the outermost adapter that counts, else that of the loader.
std::optional<EpochStep> epoch_step(const SavableDataLoaderState& state);

/// Converts the position of a pipeline (state, index, epoch, offset) to bytes and back. Used in
/// files, in the checkpoint ring, and in messages to a worker. decode_checkpoint() throws Error
/// (kCorruptData).
void encode_checkpoint(ByteWriter& writer, const SavableDatasetCheckpoint& checkpoint);
SavableDatasetCheckpoint decode_checkpoint(ByteReader& reader);

/// Where a stream stands. An epoch may pass without a batch, so the index alone does not tell it.
struct CheckpointPlace {
  std::int64_t index = 0;  ///< batches over all epochs
  std::int64_t epoch = 0;  ///< of the next batch

  auto operator<=>(const CheckpointPlace&) const = default;

  /// Whether the stream can go on from here to `position`.
  bool leads_to(const CheckpointPlace& position) const {
    return index <= position.index && epoch <= position.epoch;
  }
};
inline CheckpointPlace place_of(const SavableDatasetCheckpoint& checkpoint) {
  return {checkpoint.index, checkpoint.epoch};
}
/// The place of an encoded position, of which the first kBytesOfPlace bytes are enough. Throws as
/// decode_checkpoint().
CheckpointPlace place_of_checkpoint(std::string_view encoded);
inline constexpr std::size_t kBytesOfPlace = 16;

/// Converts to the file form and back: writes version 4, reads versions 1 to 4.
/// decode_loader_state() throws Error: kCorruptData (truncated, damaged, not a state), kUnsupported
/// (newer version; the message has both version numbers).
std::string encode_loader_state(const SavableDataLoaderState& state);
SavableDataLoaderState decode_loader_state(std::string_view bytes);

/// Writes atomically: a reader finds the old or the new file, never a mixture. Throws Error (kIo).
void write_loader_state(const std::string& path, const SavableDataLoaderState& state);
/// Throws Error with the path: kNotFound, kIo, and those of decode_loader_state().
SavableDataLoaderState read_loader_state(const std::string& path);

/// A description for people.
nlohmann::ordered_json describe_loader_state(const SavableDataLoaderState& state);

}  // namespace energon
