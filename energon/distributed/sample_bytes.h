// A batch as two byte sequences, structure and data, for sending to a process that shares no
// memory.
//
// The structure is the place of the batch and what encode_sample() (transport.h) makes of it. The
// data are the payloads one after the other, each aligned to 64 bytes. Not a stable format: both
// sides must be the same build.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon {

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
