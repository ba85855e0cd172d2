// The functions and classes that a pickle of torch.save may name: a fixed list. Internal to
// media/data.
//
// torch/serialization.py and torch/_utils.py define what they mean.

#pragma once

#include <string_view>

#include "media/data/pickle_reader.h"

namespace energon {

// All are thread-safe.

/// What `module`.`name` stands for: PickleFunction or PickleStorageType. Throws Error
/// (kUnsupported) with both names if it is not on the list.
PickleNode torch_global(std::string_view module, std::string_view name);

/// The storage that the persistent id ("storage", type, key, device, elements) names. Throws Error
/// (kCorruptData).
PickleNode torch_storage(const PickleGraph& graph, PickleId persistent_id);

/// The result of a call. Throws Error (kUnsupported, kCorruptData) if it is none of a function of
/// the list or has other arguments.
PickleNode torch_call(const PickleGraph& graph, PickleId function, PickleId arguments);

}  // namespace energon
