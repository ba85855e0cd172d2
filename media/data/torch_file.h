// Files of torch.save, parts .pth and .pt: a zip with a pickle (data.pkl) and the bytes of the
// tensors. torch/serialization.py.
//
// A pickle is a program. This reader knows the few instructions and functions that torch.save
// writes for tensors and plain values, all written here, and refuses everything else: no code runs.

#pragma once

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/decode_limits.h"

namespace energon {

/// Tensors and parameters become tensors in `memory`, row-major whatever their strides were; one
/// that occurs twice shares its memory. dict and OrderedDict become Mapping, whose keys must be
/// texts or integers (which become decimal texts); list, tuple and torch.Size List; None, bool,
/// int, float, str and bytes the like.
///
/// Thread-safe if `memory` is. Throws Error: kCorruptData for a damaged file, such as a tensor that
/// leaves its storage; kUnsupported for complex and other dtypes, for functions and classes off the
/// list (with module and name), TorchScript, big-endian files, and the form of torch.save before
/// 1.6, which is no zip; kResourceExhausted above limits.
Value decode_torch_file(ByteView encoded, const DecodeLimits& limits, BufferAllocator& memory);

}  // namespace energon
