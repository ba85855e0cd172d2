// The part of one rank in one step of a dispatched job, and how it is sent.
//
// Rank 0 sends each rank a note with the action of this step and the structure of the rank's batch.
// The data of the batches follow in a second collective, if this step delivers batches. The layout
// is not a stable format: all ranks run the same build.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/distributed/comm.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/error.h"

namespace energon {

/// The same for all ranks in one step.
enum class DispatchKind : std::uint8_t { kBatch = 1, kSkipped, kEnd, kFailure };

struct DispatchPart {
  DispatchKind kind = DispatchKind::kEnd;
  bool last = false;  // the group ends the epoch
  std::int64_t group_samples = 0;
  std::int64_t groups = 1;      // passed by this step; several only if they are skipped
  std::int64_t epoch = 0;       // of rank 0, before this step
  std::int64_t handed_out = 0;  // groups of that epoch before this step
  Sample batch = {};            // kBatch
  std::string failure = {};     // kFailure: the Error, encoded
};

/// The parts of `ranks` ranks if rank 0 has failed with `error`.
std::vector<DispatchPart> failed_parts(std::size_t ranks, const Error& error);

/// On rank 0: sends each rank its part, and returns that of rank 0, whose batch is not copied. If a
/// batch cannot be encoded, all parts become failures. Throws Error of the Comm. Requires: a part
/// for each rank.
DispatchPart send_parts(std::vector<DispatchPart> parts, Comm& comm, BufferAllocator& memory);

/// On other ranks: returns this rank's part, whose batch is in `memory`. Throws Error: those of the
/// Comm, kCorruptData.
DispatchPart receive_part(Comm& comm, BufferAllocator& memory);

// A batch as two byte sequences, structure and data, for sending to a process without shared
// memory. The structure is the place of the batch and the result of encode_sample() (transport.h).
// The data are the concatenated payloads, each aligned to 64 bytes.

/// The result of encode_structure().
struct SampleStructure {
  std::string bytes;
  std::uint64_t data_bytes = 0;
  std::vector<SharedBytes> payloads = {};  ///< keeps the data alive until it is sent
};

/// Throws Error (kInvalidArgument), naming the field, if the batch contains lazy bytes.
SampleStructure encode_structure(const Sample& batch);

/// Copies the payloads to their places in `data`. Requires: data.size() is data_bytes.
void copy_data(const SampleStructure& structure, std::span<std::byte> data);

/// Rebuilds the batch. Its payloads point into `data` and keep it alive. Throws Error
/// (kCorruptData).
Sample decode_batch(std::string_view structure, const Buffer& data);

}  // namespace energon
