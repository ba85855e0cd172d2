// A batch as two runs of bytes, structure and data, for another process that shares no memory.
//
// The structure is what transport.h makes; the data are the payloads one after the other, each
// aligned to 64 bytes. Not a stable format: both sides are one build.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon {

/// What encode_structure() makes of a batch.
struct SampleStructure {
  std::string bytes;
  std::uint64_t data_bytes = 0;
  std::vector<SharedBytes> payloads = {};  ///< keeps the data until it was sent
};

/// Throws Error (kInvalidArgument) that names the field if there are lazy bytes in the batch.
SampleStructure encode_structure(const Sample& batch);

/// Copies the payloads to their places in `data`. Requires: data.size() is data_bytes.
void copy_data(const SampleStructure& structure, std::span<std::byte> data);

/// The batch again; its payloads view `data` and keep it. Throws Error (kCorruptData).
Sample decode_batch(std::string_view structure, const Buffer& data);

}  // namespace energon
