// Saves and rebuilds the samples that a stage holds between its items. A state has only their
// restore keys; after a restore they are rebuilt when needed.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/restore_key.h"
#include "energon/stage/dataset.h"

namespace energon {

/// The saved form of a list of keys: u32 count, then each as text (u32 length, bytes).
std::string encode_keys(std::span<const RestoreKey> keys);

/// Reads that form. Throws Error (kCorruptData) with the position of the fault.
std::vector<RestoreKey> decode_keys(std::string_view bytes);

/// The same, but also checks that `inner` emits such items (Dataset::check_key()); for checking a
/// state. Also throws Error (kInvalidArgument).
std::vector<RestoreKey> decode_keys(std::string_view bytes, const Dataset& inner);

/// Like inner.restore_sample(key), for a stream that cannot continue without the sample: any
/// exception becomes an Error that says so.
Sample rebuild_sample(Dataset& inner, const RestoreKey& key);

/// Rethrows the current exception, thrown while rebuilding the item `key` of the saved position, as
/// such an Error. Requires: called in an exception handler.
[[noreturn]] void fail_to_rebuild(const RestoreKey& key);

}  // namespace energon
