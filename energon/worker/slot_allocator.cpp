#include "energon/worker/slot_allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory_resource>
#include <thread>
#include <unordered_map>
#include <utility>

#include "energon/worker/transport.h"
#include "io/bytes.h"
#include "io/overloaded.h"

namespace energon {
namespace {

// Copied payloads begin on this boundary, so that tensors over them are aligned.
constexpr std::size_t kPayloadAlignment = 64;

// An encoded sample of up to this size goes through the ring instead of its own slot.
constexpr std::size_t kMostInlined = 2048;

// Calls `visit` for every payload of a value.
template <class Visitor>
void for_each_payload(Value& value, const Visitor& visit) {
  std::visit(Overloaded{
                 [&](SharedBytes& bytes) { visit(bytes); },
                 [](std::string&) {},
                 [](std::int64_t) {},
                 [](double) {},
                 [&](Tensor& tensor) { visit(tensor.data); },
                 [&](List& list) {
                   for (Value& element : list) {
                     for_each_payload(element, visit);
                   }
                 },
                 [&](Mapping& mapping) {
                   for (auto& [name, element] : mapping) {
                     for_each_payload(element, visit);
                   }
                 },
                 [](LazyBytes&) {},
                 [](Null) {},
                 [](bool) {},
                 [&](Tuple& tuple) {
                   for (Value& element : tuple.items) {
                     for_each_payload(element, visit);
                   }
                 },
                 [](BigInteger&) {},
             },
             value.base());
}

}  // namespace

/// The slots of buffers that are alive.
class SlotAllocator::Loans {
 public:
  struct Loan {
    ArenaSlot slot;
    Loan* next = nullptr;  // in the list of loans set aside
    // While a Placer uses it, a loan stays although its last holder released it.
    bool is_packed = false;
    bool is_let_go = false;
  };

  /// Takes over `slot`. The loan's address is what the buffer's owner points to.
  Loan* lend(ArenaSlot slot) {
    auto loan = std::make_unique<Loan>(Loan{.slot = std::move(slot)});
    live_.emplace(loan.get(), loan.get());
    return loan.release();
  }

  /// The loan of the buffer whose owner points to `address`; nullptr if it is not one of ours.
  Loan* find(const void* address) const {
    const auto found = live_.find(address);
    return found != live_.end() ? found->second : nullptr;
  }

  /// Called when the last holder releases the buffer, on any thread.
  void release(Loan* loan) {
    if (std::this_thread::get_id() == thread_) {
      let_go(loan);
      return;
    }
    loan->next = aside_.load(std::memory_order_relaxed);  // checked by the exchange
    // Release: this thread is done with the bytes, and `next` is written.
    while (!aside_.compare_exchange_weak(loan->next, loan, std::memory_order_release,
                                         std::memory_order_relaxed)) {
    }
  }

  /// Reclaims the loans that other threads released.
  void reclaim() {
    if (aside_.load(std::memory_order_relaxed) == nullptr) {  // cheap check
      return;
    }
    // Acquire: pairs with release().
    for (Loan* loan = aside_.exchange(nullptr, std::memory_order_acquire); loan != nullptr;) {
      let_go(std::exchange(loan, loan->next));
    }
  }

  /// Called when the Placer is done with a loan.
  void unpack(Loan* loan) {
    loan->is_packed = false;
    if (loan->is_let_go) {
      let_go(loan);
    }
  }

  /// Called by the allocator's destructor: from now on slots are not returned, since the arena may
  /// be gone.
  void close() {
    reclaim();
    is_closed_ = true;
  }

  ~Loans() { reclaim(); }

 private:
  void let_go(Loan* loan) {
    if (loan->is_packed) {
      loan->is_let_go = true;
      return;
    }
    if (is_closed_) {
      loan->slot.forget();
    }
    live_.erase(loan);
    delete loan;
  }

  const std::thread::id thread_ = std::this_thread::get_id();
  std::unordered_map<const void*, Loan*> live_;  // used by `thread_` only, like is_closed_
  bool is_closed_ = false;
  std::atomic<Loan*> aside_{nullptr};
};

SlotAllocator::SlotAllocator(ArenaWriter& arena, Wait wait)
    : arena_(arena), wait_(wait), loans_(std::make_shared<Loans>()) {
  arena_.set_reclaim([this] { loans_->reclaim(); });
}

SlotAllocator::~SlotAllocator() {
  arena_.set_reclaim(nullptr);
  loans_->close();
}

Buffer SlotAllocator::allocate(std::size_t size) {
  Loans::Loan* loan = loans_->lend(arena_.acquire(std::max<std::size_t>(size, 1), wait_));
  std::shared_ptr<const void> owner(
      loan, [loans = loans_](Loans::Loan* released) { loans->release(released); });
  return {loan->slot.bytes().first(size), std::move(owner)};
}

// Note [Sole holder]: a slot may be published if only the payloads of the sample hold it.
// shared_ptr::use_count() is not sufficient: it does not order the last reads of a thread that just
// released the buffer before the parent's writes to the slot. The deleter is, because it runs after
// everything that the other holders did. So the payloads of the sample give up their ownership; if
// the deleter of a slot runs meanwhile, in this thread, the slot had no other holder. A payload
// keeps the address of its owner, which identifies the slot.

/// Decides for each payload whether it stays in its slot or is copied into slot 0. The payloads of
/// the sample stay readable as long as the placer lives.
class SlotAllocator::Placer final : public PayloadPlacer {
 public:
  Placer(Loans& loans, Sample& sample) : loans_(loans) {
    for (auto& [name, value] : sample.fields) {
      for_each_payload(value, [this](SharedBytes& payload) { give_up(payload); });
    }
    for (Owner* const owner : lent_) {
      if (owner->loan->is_let_go) {
        slots_.push_back(&owner->loan->slot);
        owner->number = static_cast<std::uint32_t>(slots_.size());
      }
    }
  }
  ~Placer() {
    for (const Owner* const owner : lent_) {
      loans_.unpack(owner->loan);
    }
  }
  Placer(const Placer&) = delete;
  Placer& operator=(const Placer&) = delete;

  PayloadPlace place(const SharedBytes& payload) override {
    const Owner& owner = owner_of(payload);
    if (owner.number != 0) {
      const std::byte* begin = owner.loan->slot.bytes().data();
      return {owner.number, static_cast<std::uint64_t>(payload.view.data() - begin)};
    }
    const std::size_t offset = align_up(copied_bytes_, kPayloadAlignment);
    copied_bytes_ = offset + payload.size();
    copies_.push_back(payload.view);
    return {0, offset};
  }

  // The slots that places refer to, from number 1 on.
  const std::vector<ArenaSlot*>& slots() const { return slots_; }
  std::size_t copied_bytes() const { return copied_bytes_; }
  void copy_into(std::span<std::byte> slot) const {
    std::size_t offset = 0;
    for (const ByteView copy : copies_) {
      offset = align_up(offset, kPayloadAlignment);
      if (!copy.empty()) {
        std::memcpy(slot.data() + offset, copy.data(), copy.size());
      }
      offset += copy.size();
    }
  }

 private:
  /// The owner of payloads: a slot, or other memory.
  struct Owner {
    Loans::Loan* loan = nullptr;  // null for other memory
    bool is_looked_up = false;
    std::uint32_t number = 0;  // of the slot, if it is published
  };

  Owner& owner_of(const SharedBytes& payload) {
    const void* const address = payload.owner.get();
    if (last_ == nullptr || address != last_owner_) {
      last_owner_ = address;
      last_ = &owners_[address];
    }
    return *last_;
  }

  void give_up(SharedBytes& payload) {
    Owner& owner = owner_of(payload);
    if (!std::exchange(owner.is_looked_up, true)) {
      owner.loan = loans_.find(last_owner_);
      if (owner.loan != nullptr) {
        owner.loan->is_packed = true;
        lent_.push_back(&owner);
      }
    }
    if (owner.loan != nullptr) {  // the address without the ownership
      payload.owner = std::shared_ptr<const void>(std::shared_ptr<const void>(), last_owner_);
    }
  }

  Loans& loans_;
  std::vector<ArenaSlot*> slots_;
  // Memory for the few owners that most batches have.
  std::array<std::byte, 1024> space_;
  std::pmr::monotonic_buffer_resource memory_{space_.data(), space_.size()};
  std::pmr::unordered_map<const void*, Owner> owners_{&memory_};
  std::pmr::vector<Owner*> lent_{&memory_};  // the slots among owners_
  // The owner of the last payload: neighbors usually share a buffer.
  const void* last_owner_ = nullptr;
  Owner* last_ = nullptr;
  std::vector<ByteView> copies_;
  std::size_t copied_bytes_ = 0;
};

PackedSample SlotAllocator::pack(Sample sample) {
  Placer placer(*loans_, sample);
  encoded_.clear();
  encode_sample(sample, placer, shards_, encoded_);
  PackedSample packed;
  packed.slots.reserve(placer.slots().size() + 1);
  if (placer.copied_bytes() == 0 && encoded_.bytes().size() <= kMostInlined) {
    packed.inlined = encoded_.bytes();
  } else {
    packed.encoded_offset = align_up(placer.copied_bytes(), kPayloadAlignment);
    packed.encoded_bytes = encoded_.bytes().size();
    packed.slots.push_back(arena_.acquire(packed.encoded_offset + packed.encoded_bytes, wait_));
    const std::span<std::byte> first = packed.slots.front().bytes();
    placer.copy_into(first);
    std::memcpy(first.data() + packed.encoded_offset, encoded_.bytes().data(),
                packed.encoded_bytes);
  }
  for (ArenaSlot* slot : placer.slots()) {
    packed.slots.push_back(std::move(*slot));
  }
  return packed;
}

}  // namespace energon
