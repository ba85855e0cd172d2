#include "tests/guard/worker_pair.h"

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/process/arena.h"
#include "energon/worker/channel_sizes.h"
#include "energon/worker/protocol.h"
#include "energon/worker/statistics_block.h"
#include "energon/worker/transport.h"
#include "io/error.h"
#include "io/file.h"

namespace energon::testing {
namespace {

// Many batches may be sent before the first is received. The arena reserves a multiple of its
// limit, and valgrind cannot map 64 GiB.
LoaderOptions one_worker() {
  return {.worker_config = {.num_workers = 1},
          .prefetch_bytes = 32 << 20,
          .n_checkpoints = 64,
          .arena_limit_bytes = 64 << 20};
}

std::vector<UniqueFd> duplicates(const std::vector<int>& descriptors) {
  std::vector<UniqueFd> copies;
  for (const int fd : descriptors) {
    copies.emplace_back(::dup(fd));
  }
  return copies;
}

StatisticsBlock& formatted(std::span<std::byte> memory) { return format_statistics(memory); }

[[noreturn]] void fail(const char* what) { throw Error(ErrorCode::kInternal, what); }

}  // namespace

WorkerPair::WorkerPair(const PipelineFactory& make_pipeline)
    : options_(one_worker()),
      trainer_(channel_options(options_, 0)),
      worker_(duplicates(trainer_.descriptors())),
      checkpoints_(worker_, options_, 0),
      monitor_(formatted(trainer_.statistics())),
      allocator_(worker_.arena(), {.deadline = kNow}),
      sender_(worker_, checkpoints_, monitor_, {.deadline = kNow}),
      pipeline_(std::make_unique<PositionedDataset>(make_pipeline(
          {.config = options_.worker_config, .memory = allocator_, .monitor = monitor_}))) {}

void WorkerPair::send() {
  const bool is_first = pipeline_->index() == 0;
  std::optional<Sample> batch = pipeline_->next(0, 0);
  if (!batch) {
    fail("an endless pipeline ended");
  }
  if (!sender_.send_batch(allocator_.pack(*std::move(batch)), 0, *pipeline_,
                          {.is_first_of_epoch = is_first})) {
    fail("more batches were sent than fit into the queue");
  }
}

Sample WorkerPair::receive() {
  const RingUnit unit = trainer_.samples().try_read();
  BatchHead head;
  if (unit.status != RingStatus::kItem || unit.bytes.size() < sizeof(head)) {
    fail("no batch was sent");
  }
  std::memcpy(&head, unit.bytes.data(), sizeof(head));
  std::vector<SharedBytes> slots;
  slots.reserve(head.slot_count + std::size_t{1});
  const std::size_t references = head.slot_count * sizeof(SlotReference);
  if (head.inlined_bytes > 0) {
    slots.emplace_back();  // there is no slot 0
  }
  for (std::uint32_t i = 0; i < head.slot_count; ++i) {
    SlotReference reference;
    std::memcpy(&reference, unit.bytes.data() + sizeof(head) + i * sizeof(reference),
                sizeof(reference));
    slots.push_back(trainer_.arena().lease(reference).shared_bytes());
  }
  const std::string_view encoded =
      head.inlined_bytes > 0 ? as_text(unit.bytes.subspan(sizeof(head) + references))
                             : slots.at(0).text().substr(head.encoded_offset, head.encoded_bytes);
  Sample batch = decode_sample(encoded, slots, shards_);
  trainer_.samples().release();
  return batch;
}

}  // namespace energon::testing
