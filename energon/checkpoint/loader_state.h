// The position of one rank's loader: what was delivered, to the batch.
//
// A worker's part is a pair (state, offset): the state of its pipeline at some batch, and how many
// batches were delivered after it. docs/formats/checkpoint.md gives the file format.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "energon/checkpoint/certificate.h"
#include "energon/checkpoint/turns.h"
#include "energon/state/byte_codec.h"
#include "energon/state/savable.h"
#include "energon/state/state.h"

namespace energon {

/// The position of one logical shard.
struct SavableDatasetCheckpoint {
  std::optional<State> state;  ///< of the pipeline; nothing: its start
  std::int64_t index = 0;      ///< batches emitted before `state`, ever
  std::int64_t epoch = 0;      ///< epoch that `state` lies in
  std::int64_t offset = 0;     ///< batches delivered after `state`

  int logical_shard = 0;
  Turn turn = {};                ///< of its next batch
  Certificate certificate = {};  ///< of what it delivered

  bool operator==(const SavableDatasetCheckpoint&) const = default;
};

/// A value; comparable.
struct SavableDataLoaderState {
  /// Settings and data the position belongs to: SavableDataLoader::config() without what does not
  /// change the order.
  Config config;
  /// Of the logical shards of the rank, in their order; by default one for each worker.
  std::vector<SavableDatasetCheckpoint> streams;
  /// Whose turn it is: position in `streams`. Follows from their turns.
  std::int64_t next_worker_id = 0;
  std::int64_t epoch = 0;  ///< epochs begun before this one
  bool epoch_finished =
      false;  ///< the end of the epoch was reported; the next batch is of the next one
  std::int64_t batch_index = 0;  ///< batches delivered by this rank, ever
  /// Steps that the job took in this epoch, each a batch of every rank that had one; nothing if it
  /// is not known (files of version 1).
  std::optional<std::int64_t> step_in_epoch = 0;
  std::optional<std::int64_t> micro_batch_size;  ///< samples a batch; nothing: not batched

  bool operator==(const SavableDataLoaderState& other) const;
};

/// What every state fulfils that a loader saved; all that reads a state from bytes or JSON calls
/// it. Throws Error (kCorruptData) with the path of what is impossible, which begins with `path`:
/// the configuration (check_config()), or a count. Counts of batches, also in samples, are at most
/// 2^42, those of epochs and the micro batch at most 2^31 - 1, so that no sum or product of them
/// overflows.
void check_loader_state(const SavableDataLoaderState& state, const std::string& path);

/// The certificate of all that the rank delivered.
Certificate certificate_of(const SavableDataLoaderState& state);

/// Byte form of where a pipeline stands (state, index, epoch, offset): in the file, in the
/// checkpoint ring, and on the way to a worker. decode throws Error (kCorruptData).
void encode_checkpoint(ByteWriter& writer, const SavableDatasetCheckpoint& checkpoint);
SavableDatasetCheckpoint decode_checkpoint(ByteReader& reader);

/// File form and back. decode throws Error: kCorruptData (truncated, flipped, not a state),
/// kUnsupported (newer version, with both numbers). Reads versions 1 and 2.
std::string encode_loader_state(const SavableDataLoaderState& state);
SavableDataLoaderState decode_loader_state(std::string_view bytes);

/// Writes atomically: the old file or the new one, never a torn one. Throws Error (kIo).
void write_loader_state(const std::string& path, const SavableDataLoaderState& state);
/// Throws Error (kNotFound, kIo, and as decode_loader_state) with the path.
SavableDataLoaderState read_loader_state(const std::string& path);

/// For people.
nlohmann::ordered_json describe_loader_state(const SavableDataLoaderState& state);

}  // namespace energon
