#include "energon/process/ring_layout.h"

#include <bit>
#include <new>
#include <vector>

#include <fmt/format.h>

#include "energon/process/ring_checks.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr std::uint64_t kMinCapacity = 4096;
constexpr std::uint64_t kMaxCapacity = std::uint64_t{1} << 40;

std::uint64_t unit_stride(std::uint64_t size_bytes) {
  return align_up(sizeof(UnitHeader) + size_bytes, kUnitAlignment);
}

void throw_corrupt(const char* field, std::uint64_t value, std::uint64_t low, std::uint64_t high) {
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("shared ring is damaged: {} is {}, must be in [{}, {}]; the other process "
                  "wrote over its memory",
                  field, value, low, high));
}

bool is_closed(std::uint32_t word) {
  if (word != 0 && word != kClosedMark) {
    throw_corrupt("closed word", word, kClosedMark, kClosedMark);
  }
  return word != 0;
}

RingHeader* header_of(const SharedRange& range) {
  if (range.size < sizeof(RingHeader)) {
    throw_corrupt("size", range.size, sizeof(RingHeader), kMaxCapacity);
  }
  return reinterpret_cast<RingHeader*>(range.data());
}

std::uint64_t checked_capacity(const SharedRange& range) {
  const RingHeader* header = header_of(range);
  if (header->magic != kRingMagic) {
    throw_corrupt("magic", header->magic, kRingMagic, kRingMagic);
  }
  if (header->version != kRingVersion) {
    throw_corrupt("version", header->version, kRingVersion, kRingVersion);
  }
  const std::uint64_t capacity = header->capacity_bytes;
  if (!std::has_single_bit(capacity) || capacity < kMinCapacity ||
      capacity > range.size - sizeof(RingHeader)) {
    throw_corrupt("capacity", capacity, kMinCapacity, range.size - sizeof(RingHeader));
  }
  return capacity;
}

bool poll_doorbell(const Doorbell& doorbell, const Wait& wait, bool& timed_out) {
  std::vector<Waitable> waitables{{doorbell.fd()}};
  for (const int fd : wait.peer_gone) {
    waitables.push_back({fd});
  }
  timed_out = !wait_any(waitables, wait.deadline);
  for (std::size_t i = 1; i < waitables.size(); ++i) {
    if (waitables[i].ready) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::uint64_t ring_footprint(std::uint64_t capacity_bytes) {
  return sizeof(RingHeader) + capacity_bytes;
}

void format_ring(const SharedRange& range, std::uint64_t capacity_bytes) {
  if (!std::has_single_bit(capacity_bytes) || capacity_bytes < kMinCapacity ||
      capacity_bytes > kMaxCapacity || range.size < ring_footprint(capacity_bytes)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("ring capacity {} must be a power of two from {} to {}, within the {} "
                            "bytes given",
                            capacity_bytes, kMinCapacity, kMaxCapacity, range.size));
  }
  auto* header = new (range.data()) RingHeader{};
  header->magic = kRingMagic;
  header->version = kRingVersion;
  header->capacity_bytes = capacity_bytes;
}

}  // namespace energon
