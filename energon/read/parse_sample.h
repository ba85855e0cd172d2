// Makes a sample of the bytes that were read for it.

#pragma once

#include <cstddef>
#include <cstdint>

#include "energon/read/batch_layout.h"
#include "energon/read/webdataset.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon {

/// The sample of `piece`, whose bytes are in `buffer`. Its parts share the buffer. Memory for
/// `usual_parts` fields is taken at once. Throws Error (kCorruptData, kUnsupported) with tar, byte
/// and key.
Sample parse_sample(const Webdataset& dataset, const SamplePiece& piece, const Buffer& buffer,
                    std::size_t usual_parts);

}  // namespace energon
