// The allocator of hot_paths: counted, and of the same cost whatever was allocated before.
//
// What malloc() costs depends on the holes that earlier allocations left, and so on the names and
// times of files. Here freed blocks of a size form a list, and every allocation takes the first one
// of its list. Linking steady_new.cpp replaces operator new of the whole program.

#pragma once

#include <cstdint>

namespace energon::testing {

/// Calls of operator new since the program began.
std::uint64_t steady_allocations();

}  // namespace energon::testing
