// Reads the bytes of a batch, as a trainer that uses them does.

#pragma once

#include <cstdint>

#include "energon/sample/sample.h"

namespace energon::cli {

/// The sum of all payload bytes of a batch, taken as 64-bit little-endian words; the last word of a
/// part is filled up with zeros. Reads every byte that payload_bytes() counts; lazy bytes are not
/// fetched. Does not depend on the order of samples or parts.
std::uint64_t sum_of_words(const Sample& batch);

}  // namespace energon::cli
