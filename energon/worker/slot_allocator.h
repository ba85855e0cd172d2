// Allocates payload memory of a worker in slots of its arena.
//
// A pipeline reads data into slots. When a batch is sent, slots that only this batch uses are
// published directly. Everything else (values that a function made on the heap, slots that are
// still held elsewhere in the worker) is copied into slot 0 of the batch. So a batch of parts is
// sent without a copy, and no slot is published while the worker can still access it.

#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "energon/process/arena.h"
#include "energon/process/wait.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "energon/worker/transport.h"
#include "io/byte_codec.h"

namespace energon {

/// An encoded batch, ready to be published. Payloads refer to slots by number. Slot 0 has copied
/// payloads; small batches do without it.
struct PackedSample {
  std::vector<ArenaSlot> slots;      ///< slot 0: copied payloads, then the encoded sample
  std::uint64_t encoded_offset = 0;  ///< offset in slot 0
  std::uint64_t encoded_bytes = 0;
  /// If there is no slot 0, the encoded sample: `slots` begins with slot 1. Valid until the next
  /// pack().
  std::string_view inlined = {};
};

/// Used only by the thread that created it, the worker's main thread. Buffers may be released on
/// any thread and at any time, even after the allocator is destroyed. Buffers released on another
/// thread are set aside until the next allocate() or pack() reclaims them.
class SlotAllocator final : public BufferAllocator {
 public:
  /// `arena` must outlive the allocator, which takes over its set_reclaim(). `wait` bounds each
  /// wait for the consumer to return slots.
  SlotAllocator(ArenaWriter& arena, Wait wait);
  ~SlotAllocator() override;
  SlotAllocator(const SlotAllocator&) = delete;
  SlotAllocator& operator=(const SlotAllocator&) = delete;

  Buffer allocate(std::size_t size) override;

  /// Encodes `sample` into slots and consumes it: its payloads must not be used afterwards. Results
  /// must be decoded in order, because each batch names only shards that are new on the channel.
  /// Throws Error: kResourceExhausted that names arena_limit_bytes, and those of encode_sample().
  PackedSample pack(Sample sample);

 private:
  class Placer;
  class Loans;

  ArenaWriter& arena_;
  const Wait wait_;
  const std::shared_ptr<Loans> loans_;  // shared with the live buffers
  ByteWriter encoded_;                  // reused to avoid allocations
  ShardNumbers shards_;                 // named by previous batches
};

}  // namespace energon
