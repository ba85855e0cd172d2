// The position of a rank in a state file: docs/formats/checkpoint.md. Private to state_file.cpp.

#pragma once

#include <cstdint>

#include "energon/checkpoint/loader_state.h"
#include "energon/state/byte_codec.h"
#include "energon/state/savable.h"
#include "energon/state/state.h"

namespace energon {

// Versions of the file. Frozen: append, never renumber.
inline constexpr std::uint32_t kFirstVersion = 1;  // one stream a worker, no turns, no certificates
inline constexpr std::uint32_t kAdaptersVersion = 3;  // the first with adapters
inline constexpr std::uint32_t kVersion =
    4;  // structures once, numbers of variable length; written

/// Appends all of `state` but its configuration, in the form of kVersion.
void encode_position(ByteWriter& writer, StructureWriter& states,
                     const SavableDataLoaderState& state);

/// Reads what a program of `version` wrote. `states`: null before kVersion. Throws Error
/// (kCorruptData), also for what check_loader_state() refuses.
SavableDataLoaderState decode_position(ByteReader& reader, Config config, std::uint32_t version,
                                       const StructureReader* states);

}  // namespace energon
