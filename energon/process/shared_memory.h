// Nameless shared memory: one sparse mapping over a sealed memfd.
//
// Nothing appears in /dev/shm, and its size does not limit us. The seals fix the size, so that
// nobody who gets hold of the descriptor can truncate it and cause a SIGBUS. Pages cost memory from
// their first touch on, not before; punch() gives them back. Core dumps leave it out: to write one
// would touch every page of the reservation. This is the only mmap of the project.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/unique_fd.h"

namespace boost::interprocess {
class mapped_region;
}

namespace energon {

/// Shared between everything that views it: the mapping goes with the last owner, so a tensor may
/// outlive the loader and the worker. Thread-safe (the bytes are not).
class SharedMemory {
 public:
  /// Maps `size_bytes` (rounded up to whole pages) of zeros. Throws Error: kUnsupported where a
  /// sandbox refuses memfd_create(), kResourceExhausted if RLIMIT_FSIZE, the address space or the
  /// descriptors do not allow it, kIo otherwise.
  static std::shared_ptr<SharedMemory> create(std::uint64_t size_bytes);

  /// Maps what create() made, in any process. Throws Error: kInvalidArgument if `memfd` is not
  /// sealed against resizing, kResourceExhausted, kIo.
  static std::shared_ptr<SharedMemory> attach(UniqueFd memfd);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  /// The memfd.
  int fd() const { return memfd_.get(); }

  /// Gives the whole pages inside [offset, offset + size) back; they read as zeros afterwards, in
  /// every process. False if the system refuses: then nothing changed. Throws Error
  /// (kInvalidArgument) if the range is not inside the memory.
  bool punch(std::uint64_t offset, std::uint64_t size);

 private:
  SharedMemory(UniqueFd memfd, std::unique_ptr<boost::interprocess::mapped_region> region);

  const UniqueFd memfd_;
  const std::unique_ptr<boost::interprocess::mapped_region> region_;
  std::byte* const data_;
  const std::uint64_t size_;
};

/// A part of a shared memory, with what keeps it mapped.
struct SharedRange {
  std::shared_ptr<SharedMemory> memory;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;

  std::byte* data() const { return memory->data() + offset; }
};

/// [offset, offset + size) of `memory`. Throws Error (kInvalidArgument) if it is not inside.
SharedRange shared_range(std::shared_ptr<SharedMemory> memory, std::uint64_t offset,
                         std::uint64_t size);

/// Bytes of a page of memory; what punch() and the layouts round to.
inline constexpr std::uint64_t kPageBytes = 4096;

/// `value` rounded up to a multiple of `alignment` (a power of two). Requires: no overflow.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace energon
