// Interprets the opcodes of Python's pickle that torch.save writes (pickletools describes them),
// without running code. Internal to media/data.

#pragma once

#include "io/bytes.h"
#include "media/data/pickle_graph.h"
#include "media/decode_limits.h"

namespace energon {

/// Thread-safe. Throws Error with the byte offset: kCorruptData for a damaged pickle, kUnsupported
/// for opcodes, functions and classes other than those of torch.save, with module and name;
/// kResourceExhausted if the objects take more than limits.max_bytes.
PickleGraph read_pickle(ByteView encoded, const DecodeLimits& limits);

}  // namespace energon
