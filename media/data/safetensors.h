// Tensors in the safetensors format: github.com/huggingface/safetensors, section "Format".

#pragma once

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/decode_limits.h"

namespace energon {

/// The tensors by name, in the order of the header. `__metadata__`, if there, is a Mapping of texts
/// under that name. BOOL, U8, I8 to I64, F16, BF16, F32 and F64 keep their type, U16 becomes int32,
/// U32 becomes int64.
///
/// Tensors that lie aligned for their type are views that keep the whole part in memory; others,
/// and those whose type changes, are copies in `memory`.
///
/// Thread-safe if `memory` is. Throws Error: kCorruptData for a damaged header, and for tensors
/// that overlap, leave holes, or do not have the bytes of their shape; kUnsupported, with the name
/// of the tensor, for other types; kResourceExhausted for a header above 100 MB, as in the format's
/// own library, and above limits.
Mapping decode_safetensors(const SharedBytes& encoded, const DecodeLimits& limits,
                           BufferAllocator& memory);

}  // namespace energon
