#include "energon/process/slot_lease.h"

#include <atomic>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "energon/process/arena.h"
#include "io/error.h"
#include "io/mutex.h"

namespace energon {

/// The way back to the worker, kept alive by every lease.
struct ArenaReader::ReturnLane {
  explicit ReturnLane(std::unique_ptr<RingWriter> ring) : returns(std::move(ring)) {}

  void give_back(const SlotReference& reference) noexcept {
    if (!owner.is_current()) {
      return;  // the parent's copy of the lease gives it back; and the mutex may be held for ever
    }
    leases.fetch_sub(1, std::memory_order_relaxed);  // a count for people, orders nothing
    try {
      const MutexLock lock(mutex);
      // Has room: the worker never has more slots outside than the ring takes. If the worker is
      // dead or damaged its ring, there is nobody to give it back to.
      const RingSpace space = returns->try_begin(sizeof(reference));
      if (space.status == RingStatus::kItem) {
        std::memcpy(space.bytes.data(), &reference, sizeof(reference));
        returns->commit();
      }
    } catch (const Error&) {
    }
  }

  // Not analysed: RingWriter::close() may be called by any thread at any time.
  void close() ENERGON_NO_THREAD_SAFETY_ANALYSIS { returns->close(); }

  const OwnerProcess owner;
  std::atomic<std::uint64_t> leases{0};
  Mutex mutex;  // makes many threads one producer
  const std::unique_ptr<RingWriter> returns ENERGON_PT_GUARDED_BY(mutex);
};

/// One slot on loan.
struct ArenaReader::Lease {
  Lease(std::shared_ptr<SharedMemory> memory_in, std::shared_ptr<ReturnLane> lane_in,
        const SlotReference& reference_in)
      : memory(std::move(memory_in)), lane(std::move(lane_in)), reference(reference_in) {
    lane->leases.fetch_add(1, std::memory_order_relaxed);  // a count for people, orders nothing
  }
  ~Lease() { lane->give_back(reference); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  const std::shared_ptr<SharedMemory> memory;
  const std::shared_ptr<ReturnLane> lane;
  const SlotReference reference;
};

ArenaReader::ArenaReader(SharedRange range, std::unique_ptr<RingWriter> returns)
    : range_(std::move(range)), lane_(std::make_shared<ReturnLane>(std::move(returns))) {}

ArenaReader::~ArenaReader() = default;

SlotLease ArenaReader::lease(const SlotReference& reference) {
  lane_->owner.check("an arena");
  if (reference.offset % kPageBytes != 0 || reference.offset > range_.size ||
      reference.size_bytes > range_.size - reference.offset) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("slot reference is damaged: [{}, +{}) is not a slot of an arena of {} "
                            "bytes; the worker wrote over its memory",
                            reference.offset, reference.size_bytes, range_.size));
  }
  return {{range_.data() + reference.offset, reference.size_bytes},
          std::make_shared<const Lease>(range_.memory, lane_, reference)};
}

void ArenaReader::close() { lane_->close(); }

std::uint64_t ArenaReader::leases() const {
  return lane_->leases.load(std::memory_order_relaxed);  // a count for people, orders nothing
}

}  // namespace energon
