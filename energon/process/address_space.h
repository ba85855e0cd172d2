// How much address space a process may still map.
//
// Reservations are sparse, so memory does not limit them. Their limits are RLIMIT_AS (`ulimit -v`),
// RLIMIT_FSIZE (`ulimit -f`, because shared memory is a file) and the address range of the
// processor.

#pragma once

#include <cstdint>

namespace energon {

struct AddressSpace {
  std::uint64_t left_bytes = 0;          ///< total that can still be mapped
  std::uint64_t largest_file_bytes = 0;  ///< of one shared memory file

  static AddressSpace now();
};

/// Physical memory of this machine.
std::uint64_t physical_memory_bytes();

}  // namespace energon
