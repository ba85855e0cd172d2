// Nameless shared memory: one sparse mapping over a sealed memfd.
//
// Nothing appears in /dev/shm, and the size of /dev/shm is not a limit. The seals fix the size, so
// no holder of the descriptor can truncate it and cause a SIGBUS. A page takes memory only from its
// first touch on; punch() gives pages back. Core dumps exclude the mapping, because dumping it
// would touch every page of the reservation.
//
// keep_only() reduces the memory to some of its pages: the rest is unmapped, and the descriptor
// closed. That is how a batch outlives the arena of its worker without holding the arena's address
// space (energon/process/arena.h).
//
// A forked child inherits the mappings because it may read batches that its parent holds. A fork
// server never does and would keep the pages of closed loaders, so it drops the mappings
// (abandon_inherited()).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "io/bytes.h"
#include "io/file.h"

namespace energon {

/// Shared by all objects that view it. The mapping is removed with the last owner, so a tensor may
/// outlive the loader and the worker. Thread-safe, but access to the bytes is not synchronized.
class SharedMemory {
 public:
  /// Maps `size_bytes` (rounded up to whole pages) of zeros. Throws Error: kUnsupported if a
  /// sandbox forbids memfd_create(), kResourceExhausted if RLIMIT_FSIZE, the address space or the
  /// descriptor limit does not allow it, kIo otherwise.
  static std::shared_ptr<SharedMemory> create(std::uint64_t size_bytes);

  /// Maps memory made by create(), in any process. Throws Error: kInvalidArgument if `memfd` is not
  /// sealed against resizing, kResourceExhausted, kIo.
  static std::shared_ptr<SharedMemory> attach(UniqueFd memfd);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  /// The memfd; -1 after keep_only().
  int fd() const { return memfd_.get(); }

  /// Lists this memory for abandon_inherited(). Idempotent.
  void list_for_children();

  /// In a forked child: gives up all listed memory that the parent had mapped. Its addresses stay
  /// taken, and using them ends the process with SIGSEGV; the objects may still be destroyed.
  /// Requires: the process has one thread.
  static void abandon_inherited();

  /// Gives the whole pages inside [offset, offset + size) back to the system. They read as zeros
  /// afterwards, in every process. Returns false, and changes nothing, if the system refuses.
  /// Throws Error (kInvalidArgument) if the range is not inside the memory. Requires: it is still
  /// mapped.
  bool punch(std::uint64_t offset, std::uint64_t size);

  /// Unmaps everything but the pages of `kept`, in this process, and closes the descriptor. The
  /// other bytes must not be used afterwards; small gaps may stay mapped. With `punches`, also
  /// returns the other pages to the system, and the kept ones when they are released, as punch()
  /// does. Each kept range must be passed to release() once. Requires: no page is in two ranges;
  /// called at most once.
  void keep_only(std::span<const ByteRange> kept, bool punches);
  /// Releases one of the ranges of keep_only(). Thread-safe.
  void release(const ByteRange& kept);

 private:
  struct Mapping;
  SharedMemory(UniqueFd memfd, std::unique_ptr<Mapping> mapping);

  UniqueFd memfd_;
  const std::unique_ptr<Mapping> mapping_;
  std::byte* const data_;
  const std::uint64_t size_;

  // Links in the list of list_for_children(); guarded by its mutex.
  SharedMemory* next_ = nullptr;
  SharedMemory** link_ = nullptr;  // the pointer to this object; null if not listed
};

/// A part of a shared memory, and its shared ownership.
struct SharedRange {
  std::shared_ptr<SharedMemory> memory;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;

  std::byte* data() const { return memory->data() + offset; }
};

/// [offset, offset + size) of `memory`. Throws Error (kInvalidArgument) if it is not inside.
SharedRange shared_range(std::shared_ptr<SharedMemory> memory, std::uint64_t offset,
                         std::uint64_t size);

/// Bytes per memory page of this system (4 KiB or 64 KiB, mostly): the unit of punch() and of the
/// layouts.
std::uint64_t page_bytes();

// How much address space a process may still map.
//
// Reservations are sparse, so memory does not limit them. Their limits are RLIMIT_AS (`ulimit -v`),
// RLIMIT_FSIZE (`ulimit -f`, because shared memory is a file) and the address range of the
// processor.

struct AddressSpace {
  std::uint64_t left_bytes = 0;          ///< total that can still be mapped
  std::uint64_t largest_file_bytes = 0;  ///< of one shared memory file

  static AddressSpace now();
};

/// Physical memory of this machine.
std::uint64_t physical_memory_bytes();

}  // namespace energon
