// How much address space a process may still map.
//
// Reservations are sparse: what limits them is not memory but RLIMIT_AS (`ulimit -v`), RLIMIT_FSIZE
// (`ulimit -f`, as shared memory is a file) and what the processor can address.

#pragma once

#include <cstdint>

namespace energon {

struct AddressSpace {
  std::uint64_t left_bytes = 0;          ///< in all
  std::uint64_t largest_file_bytes = 0;  ///< of one shared memory

  static AddressSpace now();
};

/// Memory of this machine.
std::uint64_t physical_memory_bytes();

}  // namespace energon
