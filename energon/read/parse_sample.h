// Makes a sample of the bytes that were read for it.

#pragma once

#include <cstddef>
#include <cstdint>

#include "energon/read/batch_layout.h"
#include "energon/read/webdataset.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"

namespace energon {

/// The sample of `piece`, whose bytes are `bytes`. Its parts share `buffer`: if `bytes` are not the
/// piece's place in it, the parts are copied there, and the rest of the place stays as it is.
/// Memory for `usual_parts` fields is taken at once. Throws Error (kCorruptData, kUnsupported) with
/// tar, byte and key.
Sample parse_sample(const Webdataset& dataset, const SamplePiece& piece, ByteView bytes,
                    const Buffer& buffer, std::size_t usual_parts);

}  // namespace energon
