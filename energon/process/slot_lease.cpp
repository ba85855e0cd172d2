#include "energon/process/slot_lease.h"

#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/process/arena.h"
#include "io/concurrency.h"
#include "io/error.h"

namespace energon {

/// One slot on loan. Links are guarded by the mutex of its Loans.
struct ArenaReader::Lease {
  Lease(std::shared_ptr<Loans> loans_in, const SlotReference& reference_in);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  const std::shared_ptr<Loans> loans;
  const SlotReference reference;
  Lease* next = nullptr;
  Lease** link = nullptr;  // what points to this lease
};

/// The live leases of one arena, which keep it alive, and where their slots go when they end: back
/// to the worker, or, if there is none any more, to the system.
struct ArenaReader::Loans {
  Loans(SharedRange range_in, std::unique_ptr<RingWriter> ring)
      : range(std::move(range_in)), returns(std::move(ring)) {}

  void add(Lease& lease) noexcept {
    const MutexLock lock(mutex);
    lease.next = first;
    lease.link = &first;
    if (first != nullptr) {
      first->link = &lease.next;
    }
    first = &lease;
  }

  void end(const Lease& lease) noexcept {
    if (!owner.is_current()) {
      return;  // the parent's copy of the lease gives it back; and the mutex may be held for ever
    }
    const MutexLock lock(mutex);
    *lease.link = lease.next;
    if (lease.next != nullptr) {
      lease.next->link = lease.link;
    }
    if (returns == nullptr) {
      range.memory->release(bytes_of(lease));
      return;
    }
    try {
      // Has room: the worker never has more slots outside than the ring takes. If the worker is
      // dead or damaged its ring, there is nobody to give it back to.
      const RingSpace space = returns->try_begin(sizeof(lease.reference));
      if (space.status == RingStatus::kItem) {
        std::memcpy(space.bytes.data(), &lease.reference, sizeof(lease.reference));
        returns->commit();
      }
    } catch (const Error&) {
    }
  }

  void leave(bool worker_has_ended) {
    const MutexLock lock(mutex);
    if (first == nullptr) {
      return;  // all of the memory goes with its owner
    }
    std::vector<ByteRange> lent;
    for (const Lease* lease = first; lease != nullptr; lease = lease->next) {
      lent.push_back(bytes_of(*lease));
    }
    returns.reset();
    range.memory->keep_only(lent, worker_has_ended);
  }

  // Not analysed: RingWriter::close() may be called by any thread at any time.
  void close() ENERGON_NO_THREAD_SAFETY_ANALYSIS { returns->close(); }

  // In the memory.
  ByteRange bytes_of(const Lease& lease) const {
    return {.offset = range.offset + lease.reference.offset, .size = lease.reference.size_bytes};
  }

  const OwnerProcess owner;
  const SharedRange range;
  Mutex mutex;  // makes many threads one producer
  Lease* first ENERGON_GUARDED_BY(mutex) = nullptr;
  // Null once the arena was left.
  std::unique_ptr<RingWriter> returns ENERGON_GUARDED_BY(mutex);
};

ArenaReader::Lease::Lease(std::shared_ptr<Loans> loans_in, const SlotReference& reference_in)
    : loans(std::move(loans_in)), reference(reference_in) {
  loans->add(*this);
}

ArenaReader::Lease::~Lease() { loans->end(*this); }

ArenaReader::ArenaReader(SharedRange range, std::unique_ptr<RingWriter> returns)
    : loans_(std::make_shared<Loans>(std::move(range), std::move(returns))) {}

ArenaReader::~ArenaReader() = default;

SlotLease ArenaReader::lease(const SlotReference& reference) {
  loans_->owner.check("an arena");
  const SharedRange& range = loans_->range;
  if (reference.offset % page_bytes() != 0 || reference.offset > range.size ||
      reference.size_bytes > range.size - reference.offset) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("slot reference is damaged: [{}, +{}) is not a slot of an arena of {} "
                            "bytes; the worker wrote over its memory",
                            reference.offset, reference.size_bytes, range.size));
  }
  return {{range.data() + reference.offset, reference.size_bytes},
          std::make_shared<Lease>(loans_, reference)};
}

void ArenaReader::close() { loans_->close(); }

void ArenaReader::leave(bool worker_has_ended) { loans_->leave(worker_has_ended); }

}  // namespace energon
