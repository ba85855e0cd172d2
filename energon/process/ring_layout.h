// Layout of a message ring in shared memory: docs/formats/shared_memory.md, "Ring".
//
// Not a stable format: both sides are the same build. Contains no pointers.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace energon {

inline constexpr std::uint64_t kRingMagic = 0x31474E49524E4745;  // "EGNRING1"
inline constexpr std::uint32_t kRingVersion = 1;
inline constexpr std::uint64_t kUnitAlignment = 16;
inline constexpr std::uint32_t kUnitMagic = 0x54494E55;     // "UNIT"
inline constexpr std::uint32_t kPaddingMagic = 0x44444150;  // "PADD"

/// The value of a `closed` word after closing; 0 before. Any other value means damage.
inline constexpr std::uint32_t kClosedMark = 0x534F4C43;  // "CLOS"

/// Cursors are absolute: bytes since the ring was made, never wrapped. The words of each side are
/// in separate cache lines, because each side writes them for every unit.
struct RingHeader {
  alignas(64) std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t capacity_bytes;  // a power of two

  alignas(64) std::atomic<std::uint64_t> published;  // writer: end of the last committed unit
  std::atomic<std::uint32_t> writer_closed;

  alignas(64) std::atomic<std::uint64_t> released;  // reader: end of the last released unit
  std::atomic<std::uint32_t> reader_closed;

  alignas(64) std::atomic<std::uint32_t> reader_sleeps;  // reader sets, either side clears

  alignas(
      64) std::atomic<std::uint64_t> writer_wants;  // `released` the sleeping writer needs; or 0
};

/// Precedes each unit. A padding unit fills the bytes up to the end of the ring.
struct UnitHeader {
  std::uint32_t magic;     // kUnitMagic or kPaddingMagic
  std::uint32_t sequence;  // low bits of the number of units before this one
  std::uint64_t size_bytes;
};

static_assert(sizeof(RingHeader) == 320 && alignof(RingHeader) == 64);
static_assert(offsetof(RingHeader, published) == 64 && offsetof(RingHeader, released) == 128);
static_assert(offsetof(RingHeader, reader_sleeps) == 192);
static_assert(offsetof(RingHeader, writer_wants) == 256);
static_assert(sizeof(UnitHeader) == kUnitAlignment);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace energon
