#include "energon/worker/batch_sender.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "energon/process/arena.h"
#include "energon/worker/protocol.h"
#include "energon/worker/transport.h"
#include "io/error.h"

namespace energon {
namespace {

// More than the maximum ahead. Without checkpoints, nothing else queries what the parent has taken.
constexpr std::size_t kManySent = 4096;

}  // namespace

// Room for a message; nullopt once the channel is closed.
std::optional<std::span<std::byte>> BatchSender::begin(std::size_t size) {
  RingSpace space = channel_.samples().try_begin(size);
  if (space.status == RingStatus::kTimedOut) {
    const ConsumerWait waiting(monitor_.block());
    space = channel_.samples().begin(size, wait_);
  }
  return space.status == RingStatus::kItem ? std::optional(space.bytes) : std::nullopt;
}

bool BatchSender::send_reports() {
  const std::vector<FailureReport> reports = monitor_.take_reports();
  if (reports.empty()) {
    return true;
  }
  for (const std::string& message : encode_reports(reports)) {
    ArenaSlot slot = channel_.arena().acquire(message.size(), wait_);
    std::memcpy(slot.bytes().data(), message.data(), message.size());
    const BatchHead head{
        .kind = SampleMessage::kReports, .slot_count = 1, .encoded_bytes = message.size()};
    const auto space = begin(sizeof(head) + sizeof(SlotReference));
    if (!space) {
      return false;
    }
    const SlotReference reference = slot.publish();
    std::memcpy(space->data(), &head, sizeof(head));
    std::memcpy(space->data() + sizeof(head), &reference, sizeof(reference));
    channel_.samples().commit();
  }
  return true;
}

void BatchSender::send_failure(const Error& error) {
  try {
    send_reports();
  } catch (const Error&) {
    // Out of memory, or the loader is closed: the failure matters more than the reports.
  }
  const std::string encoded = encode_error(error);
  const BatchHead head{.kind = SampleMessage::kFailure};
  if (const auto space = begin(sizeof(head) + encoded.size())) {
    std::memcpy(space->data(), &head, sizeof(head));
    std::memcpy(space->data() + sizeof(head), encoded.data(), encoded.size());
    channel_.samples().commit();
  }
}

// Samples that were left out since the last checkpoint may be readable after a restore (a missing
// file is back), so a restore only skips batches from which no sample was left out.
bool BatchSender::has_new_drops() {
  return std::exchange(drops_, monitor_.drops()) != monitor_.drops();
}

// Units that the parent must have taken before another checkpoint may be stored; 0 if it may be
// stored now. Note [Kept checkpoints].
std::uint64_t BatchSender::units_before_slot(std::size_t local_index) {
  const std::optional<std::uint64_t> oldest = checkpoints_.of(local_index).oldest_after_store();
  if (!oldest) {
    return 0;
  }
  sent_.taken(channel_.samples().units_released());
  return sent_.units_until(local_index, *oldest);
}

bool BatchSender::wait_for_checkpoint_slot(std::size_t local_index) {
  const std::uint64_t units = units_before_slot(local_index);
  if (units == 0) {
    return true;
  }
  const ConsumerWait waiting(monitor_.block());
  return channel_.samples().wait_released(units, wait_) == RingStatus::kItem;
}

bool BatchSender::send_batch(PackedSample batch, std::size_t local_index,
                             const PositionedDataset& pipeline, ProducedBatch batch_info) {
  batch_info.index = pipeline.index();
  batch_info.bytes = batch.inlined.size();
  for (const ArenaSlot& slot : batch.slots) {
    batch_info.bytes += slot.bytes().size();
  }
  const BatchHead head{.kind = SampleMessage::kBatch,
                       .slot_count = static_cast<std::uint32_t>(batch.slots.size()),
                       .local_index = static_cast<std::uint32_t>(local_index),
                       .inlined_bytes = static_cast<std::uint32_t>(batch.inlined.size()),
                       .index = static_cast<std::uint64_t>(pipeline.index() - 1),
                       .encoded_offset = batch.encoded_offset,
                       .encoded_bytes = batch.encoded_bytes};
  const std::size_t size =
      sizeof(head) + batch.slots.size() * sizeof(SlotReference) + batch.inlined.size();
  const auto space = begin(size);
  if (!space) {
    return false;
  }
  LogicalShardCheckpoints& checkpoints = checkpoints_.of(local_index);
  const CheckpointDue due = checkpoints.due(batch_info);
  const bool is_needed = has_new_drops() || due == CheckpointDue::kYes;
  if (is_needed && !wait_for_checkpoint_slot(local_index)) {
    return false;
  }
  if (is_needed || (due == CheckpointDue::kIfRoom && units_before_slot(local_index) == 0)) {
    checkpoints.store(pipeline);
  }
  std::memcpy(space->data(), &head, sizeof(head));
  std::size_t offset = sizeof(head);
  for (ArenaSlot& slot : batch.slots) {
    const SlotReference reference = slot.publish();
    std::memcpy(space->data() + offset, &reference, sizeof(reference));
    offset += sizeof(reference);
  }
  if (!batch.inlined.empty()) {
    std::memcpy(space->data() + offset, batch.inlined.data(), batch.inlined.size());
  }
  count_batch(monitor_.block());
  if (sent_.size() >= kManySent) {
    sent_.taken(channel_.samples().units_released());
  }
  sent_.add(channel_.samples().units_committed(), local_index, head.index);
  channel_.samples().commit(size, batch_info.bytes);
  return true;
}

bool BatchSender::send_epoch_end(std::size_t local_index, const PositionedDataset& pipeline) {
  const BatchHead head{.kind = SampleMessage::kEpochEnd,
                       .local_index = static_cast<std::uint32_t>(local_index),
                       .index = static_cast<std::uint64_t>(pipeline.index())};
  const auto space = begin(sizeof(head));
  if (!space) {
    return false;
  }
  if (has_new_drops()) {
    if (!wait_for_checkpoint_slot(local_index)) {
      return false;
    }
    checkpoints_.of(local_index).store(pipeline);
  }
  std::memcpy(space->data(), &head, sizeof(head));
  channel_.samples().commit();
  return true;
}

void SentBatches::add(std::uint64_t unit, std::size_t local_index, std::uint64_t index) {
  sent_.push_back({unit, local_index, index});
}

void SentBatches::taken(std::uint64_t count) {
  while (!sent_.empty() && sent_.front().unit < count) {
    sent_.pop_front();
  }
}

std::uint64_t SentBatches::units_until(std::size_t local_index, std::uint64_t count) const {
  std::uint64_t units = 0;
  for (const Sent& sent : sent_) {
    if (sent.local_index != local_index) {
      continue;
    }
    if (sent.index >= count) {
      break;
    }
    units = sent.unit + 1;
  }
  return units;
}

}  // namespace energon
