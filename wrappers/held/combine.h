// Helpers for stages that make one item from several samples (batches, groups, packs) or hold
// samples between their items.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/stage/failure.h"

namespace energon {

/// Length of a sample in the unit used for groups and packs, such as tokens, frames or seconds.
using LengthFunction = std::function<std::int64_t(const Sample& sample)>;

/// A sample with only the keys and sources of `sample`, which a report needs after a function has
/// consumed the sample.
Sample origins_of(const Sample& sample);

/// Gives `made` the keys and sources of `origins` if it has none, so that a function that builds a
/// new sample need not copy them.
void set_origins(Sample& made, const Sample& origins);

/// Moves the keys and sources of `samples`, in order, to the end of those of `item`.
void move_origins(std::span<Sample> samples, Sample& item);

/// Throws as check_made() if `fields`, which a function made of `samples`, have a name twice. To be
/// asked before move_origins(), so that a report still finds keys and sources where they were.
void check_fields_of(std::span<const Sample> samples, const Mapping& fields);

/// The restore keys of `samples`, in order.
std::vector<RestoreKey> restore_keys(std::span<const Sample> samples);

/// The key of an item that is made of `samples`: RestoreKey::list() of their keys.
RestoreKey key_of_list(Stage stage, std::initializer_list<std::int64_t> integers,
                       std::span<const Sample> samples);

/// The samples that `inner` emitted with `keys`, in order. Throws as Dataset::restore_sample().
std::vector<Sample> restore_samples(Dataset& inner, std::span<const RestoreKey> keys);

/// The entries for `samples` in a report. Requires: their keys and sources are still there.
std::vector<FailedSample> failed_samples(std::span<const Sample> samples);

// Saving and rebuilding the samples that a stage holds between its items. A state has only their
// restore keys; after a restore they are rebuilt when needed.

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
