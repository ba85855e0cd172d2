// The messages between a loader and its workers.
//
//   worker main thread                      parent
//     kBatch, kBatch, …  ── sample ring ──>   delivered in turn, logical shard after logical shard
//     kEpochEnd                               a logical shard ended; when all have, the epoch ends
//     (waits)            <─ kNextEpoch ──     sent by the first next() after that
//     kReports                                failures that a policy allowed, before a batch
//     kFailure                                rethrown by next(); the worker waits to be ended
//
//   worker command thread                   parent
//                        <─ kGetCheckpoint ─  ask_for_checkpoints(): "I delivered n of yours"
//     CheckpointAnswer   ── result ring ──>   the parent copies it out of the checkpoint ring
//
//   Saving needs no message: the parent searches the checkpoint rings, which outlive a worker.
//
// A worker produces batches until each of its logical shards has sent kEpochEnd, then waits for
// kNextEpoch. After kFailure it only waits to be ended. Closing the channel ends it at any time.
//
// The structs are copied into and out of ring units without conversion: parent and workers are the
// same build. Not a stable format.

#pragma once

#include <cstdint>
#include <type_traits>

namespace energon {

enum class SampleMessage : std::uint32_t {
  kBatch = 1,     ///< BatchHead, then a SlotReference per slot; slot 0 holds the encoded sample,
                  ///< or it follows the references and there is no slot 0
  kEpochEnd = 2,  ///< the head only
  kFailure = 3,   ///< the head, then the encoded Error
  kReports = 4,   ///< like kBatch; slot 0 holds encoded failure reports
};

/// Begins every unit of the sample ring.
struct BatchHead {
  SampleMessage kind = SampleMessage::kBatch;
  std::uint32_t slot_count = 0;
  std::uint32_t local_index = 0;    ///< index within the rank of the logical shard of this message
  std::uint32_t inlined_bytes = 0;  ///< of the encoded sample after the references, 0 in slot 0
  std::uint64_t index = 0;  ///< batches of this logical shard before this one, in all epochs
  std::uint64_t encoded_offset = 0;  ///< of the encoded sample or reports, in slot 0
  std::uint64_t encoded_bytes = 0;
};

enum class CommandKind : std::uint32_t {
  kGetCheckpoint = 1,  ///< argument: number of delivered batches of the logical shard
  kNextEpoch = 2,      ///< argument: number of the epoch to start
};

/// A unit of the command ring.
struct Command {
  CommandKind kind = CommandKind::kGetCheckpoint;
  std::uint32_t local_index = 0;  ///< index within the rank
  std::uint64_t argument = 0;
};

/// A unit of the result ring.
struct CheckpointAnswer {
  std::uint32_t local_index = 0;  ///< index within the rank of the logical shard
  std::uint32_t found = 0;        ///< 0 if no checkpoint is stored yet
  std::uint64_t delivered = 0;    ///< the argument of the command
  std::uint64_t index = 0;  ///< index of the checkpoint to use; the offset is delivered - index
};

static_assert(std::is_trivially_copyable_v<BatchHead> && sizeof(BatchHead) == 40);
static_assert(std::is_trivially_copyable_v<Command> && sizeof(Command) == 16);
static_assert(std::is_trivially_copyable_v<CheckpointAnswer> && sizeof(CheckpointAnswer) == 24);

}  // namespace energon
