// The allocator of hot_paths: counts allocations, and costs the same regardless of earlier ones.
//
// The cost of malloc() depends on the holes that earlier allocations left, and so on file names and
// times. Here, freed blocks of a size form a list, and every allocation takes the first block of
// its list. Linking steady_new.cpp replaces operator new of the whole program.

#pragma once

#include <cstdint>

namespace energon::testing {

/// Calls of operator new since the program began.
std::uint64_t steady_allocations();

}  // namespace energon::testing
