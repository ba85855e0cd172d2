// Samples that a stage holds on to between its items: a state has only their restore keys, and
// after a restore they are rebuilt when they are needed.

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

/// Throws Error (kCorruptData) that says where the form breaks.
std::vector<RestoreKey> decode_keys(std::string_view bytes);

/// The same, and checks that `inner` emits such items (Dataset::check_key()): for the check of a
/// state. Throws also Error (kInvalidArgument).
std::vector<RestoreKey> decode_keys(std::string_view bytes, const Dataset& inner);

/// As inner.restore_sample(key), for a stream that cannot go on without the sample: whatever is
/// thrown becomes an Error that says so.
Sample rebuild_sample(Dataset& inner, const RestoreKey& key);

/// Throws what was thrown while the item `key` of the saved position was made again as such an
/// Error. Requires: called in a handler.
[[noreturn]] void fail_to_rebuild(const RestoreKey& key);

}  // namespace energon
