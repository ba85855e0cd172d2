// What get says of the samples of a batch.

#pragma once

#include <cstddef>

#include <nlohmann/json_fwd.hpp>

#include "energon/sample/sample.h"

namespace energon::cli {

/// Of sample `i` of a batch that list_parts() made, the part that `field` has; null if that sample
/// lacks it. Borrows from `field`.
const Value* part_of_sample(const Value& field, std::size_t i);

/// Keys, restore key, digest, and of each sample its place and parts.
nlohmann::ordered_json batch_json(const Sample& batch);

/// The same for people, on standard output. Throws ClosedOutput, Error (kIo).
void print_batch(const Sample& batch);

}  // namespace energon::cli
