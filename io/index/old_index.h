// The offsets in an index that may belong to other data, as evidence that a file shrank. Private to
// io.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace energon {

/// The entries of an index of a tar or a JSONL file, both arrays of 64-bit offsets; empty unless
/// there are at least two, each a multiple of `unit_bytes` and larger than the one before. Never
/// throws Error: a file that cannot be read is no evidence.
std::vector<std::uint64_t> read_old_index(const std::string& index_path, std::uint64_t unit_bytes);

}  // namespace energon
