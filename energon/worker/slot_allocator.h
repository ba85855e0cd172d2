// The worker's memory for payloads: slots of its arena.
//
// What a pipeline reads lands in a slot; when the batch is sent, slots that only this batch uses
// are published as they are, and everything else (values that a function made on the heap, slots
// that something in the worker still holds) is copied into slot 0 of the batch. So a batch of parts
// is sent without a copy, and no slot is ever published while the worker can still see it.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "energon/process/arena.h"
#include "energon/process/wait.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "energon/state/byte_codec.h"

namespace energon {

/// An encoded batch that is ready to be published, in slots.
struct PackedSample {
  std::vector<ArenaSlot> slots;      ///< slot 0: copied payloads, then the encoded sample
  std::uint64_t encoded_offset = 0;  ///< in slot 0
  std::uint64_t encoded_bytes = 0;
};

/// For the thread that makes it, the worker's main thread. Buffers may be released on any thread,
/// at any time, also after the allocator: those of another thread are put aside, and taken back by
/// the next allocate() or pack().
class SlotAllocator final : public BufferAllocator {
 public:
  /// `arena` must outlive the allocator, and has its set_reclaim() used by it; `wait` bounds each
  /// wait for the consumer to give slots back.
  SlotAllocator(ArenaWriter& arena, Wait wait);
  ~SlotAllocator() override;
  SlotAllocator(const SlotAllocator&) = delete;
  SlotAllocator& operator=(const SlotAllocator&) = delete;

  Buffer allocate(std::size_t size) override;

  /// Encodes `sample` into slots. Consumes it: its payloads must not be used any more. Throws Error
  /// (kResourceExhausted) that names arena_limit_bytes.
  PackedSample pack(Sample sample);

 private:
  class Placer;
  class Loans;

  ArenaWriter& arena_;
  const Wait wait_;
  const std::shared_ptr<Loans> loans_;  // shared with the buffers that are out
  ByteWriter encoded_;                  // kept to save an allocation
};

}  // namespace energon
