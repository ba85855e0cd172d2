#include "tests/energon/process/synthetic_stream.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "energon/process/fail_point.h"

namespace energon::testing {

std::uint64_t ByteStream::next() {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return state_ * 0x2545F4914F6CDD1DU;
}

std::uint64_t payload_size(std::uint64_t worker, std::uint64_t index, std::uint64_t largest) {
  ByteStream random((worker << 32) + index + 77);
  random.next();
  const std::uint64_t draw = random.next();
  return draw % 4 == 0 ? (draw >> 8) % (largest + 1) : (draw >> 8) % (largest / 16 + 1);
}

void fill_payload(std::uint64_t worker, std::uint64_t index, std::span<std::byte> out) {
  ByteStream random((worker << 32) + index);
  for (std::size_t at = 0; at < out.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(out.data() + at, &word, std::min(sizeof(word), out.size() - at));
  }
}

bool payload_matches(std::uint64_t worker, std::uint64_t index, ByteView bytes) {
  std::vector<std::byte> expected(bytes.size());
  fill_payload(worker, index, expected);
  return std::equal(bytes.begin(), bytes.end(), expected.begin());
}

std::uint64_t send_stream(WorkerEndpoint& worker, const StreamOptions& options, const Wait& wait) {
  for (std::uint64_t index = 0; index < options.count; ++index) {
    worker.status().set_item({options.worker, index});
    ArenaSlot slot =
        worker.arena().acquire(payload_size(options.worker, index, options.largest), wait);
    fill_payload(options.worker, index, slot.bytes().first(slot.bytes().size() / 2));
    ENERGON_FAIL_POINT("slot.write");
    fill_payload(options.worker, index, slot.bytes());
    const RingSpace space = worker.samples().begin(sizeof(StreamUnit), wait);
    if (space.status != RingStatus::kItem) {
      return index;
    }
    const StreamUnit unit{options.worker, index, slot.publish()};
    std::memcpy(space.bytes.data(), &unit, sizeof(unit));
    worker.samples().commit();
    worker.status().advance();
    if (index % options.checkpoint_every == 0) {
      worker.checkpoints().write(index, std::as_bytes(std::span(&unit, 1)));
    }
  }
  return options.count;
}

RingStatus take_unit(ParentEndpoint& parent, const StreamOptions& options, std::uint64_t expected,
                     const Wait& wait, SlotLease* keep) {
  const RingUnit received = parent.samples().read(wait);
  if (received.status != RingStatus::kItem) {
    return received.status;
  }
  StreamUnit unit;
  if (received.bytes.size() != sizeof(unit)) {
    throw std::runtime_error("unit of the wrong size");
  }
  std::memcpy(&unit, received.bytes.data(), sizeof(unit));
  parent.samples().release();
  const SlotLease lease = parent.arena().lease(unit.slot);
  if (unit.worker != options.worker || unit.index != expected ||
      lease.bytes.size() != payload_size(unit.worker, unit.index, options.largest) ||
      !payload_matches(unit.worker, unit.index, lease.bytes)) {
    throw std::runtime_error("unit " + std::to_string(expected) +
                             " differs from the unit that was sent");
  }
  if (keep != nullptr) {
    *keep = lease;
  }
  return RingStatus::kItem;
}

ChannelOptions small_channel() {
  ChannelOptions options;
  options.prefetch_units = 6;
  options.sample_ring_bytes = 4096;
  options.command_ring_bytes = 4096;
  options.result_ring_bytes = 4096;
  options.checkpoints = {.slots = 4, .slot_bytes = 1 << 16};
  options.arena = {.limit_bytes = 1 << 20,
                   .keep_free_bytes = 1 << 19,
                   .starvation_limit = std::chrono::milliseconds(100)};
  return options;
}

std::unique_ptr<WorkerEndpoint> attach_here(const ParentEndpoint& parent) {
  std::vector<UniqueFd> copies;
  for (const int fd : parent.descriptors()) {
    copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  return std::make_unique<WorkerEndpoint>(std::move(copies));
}

}  // namespace energon::testing
