#include "energon/loader/live_worker.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "energon/process/patience.h"
#include "energon/stage/dataset.h"
#include "energon/worker/channel_sizes.h"
#include "energon/worker/statistics_block.h"
#include "energon/worker/transport.h"
#include "io/error_transport.h"

namespace energon {
namespace {

// How long the report of a worker's end may take.
constexpr std::chrono::seconds kReportLimit{2};

// How long a worker that was killed may take to end. Longer only if it hangs in the kernel.
constexpr std::chrono::seconds kKilledEndsWithin{2};

BatchHead head_of(ByteView unit, const ErrorContext& place) {
  BatchHead head;
  if (unit.size() < sizeof(head)) {
    throw Error(ErrorCode::kCorruptData, "a message from a worker is too short", place);
  }
  std::memcpy(&head, unit.data(), sizeof(head));
  return head;
}

}  // namespace

std::string LiveWorker::doing() const {
  const auto item = channel_->status().item();
  if (!item) {
    return "it had not begun";
  }
  std::string text =
      fmt::format("it was making batch {} of logical shard {}", item->second, item->first);
  if (const auto work = noted_work(channel_->statistics())) {
    text += ", " + describe(*work);
  }
  return text;
}

// The first sample that a function of the user was working on, if it was in one.
ErrorContext LiveWorker::place_of_work() const {
  ErrorContext context = place();
  if (const auto work = noted_work(channel_->statistics())) {
    if (!work->shard.empty()) {
      context.path = work->dataset + "/" + work->shard;
    }
    if (!work->keys.empty()) {
      context.sample_key = work->keys.front();
    }
  }
  return context;
}

Error LiveWorker::death(WaitCheck* check) const {
  const auto detail = [&](const ProcessEnd& end) {
    const bool by_watchdog =
        end == ProcessEnd{.kind = ProcessEnd::Kind::kExited, .value = kWatchdogExitCode};
    return doing() + (by_watchdog ? ", which took longer than the timeout of its watchdog" : "");
  };
  Error error = around_.fork_server.death_of(process_, deadline_after(kReportLimit), detail, check);
  if (!around_.fork_server.alive()) {
    return error.with(place());  // no sample has to do with it
  }
  return error.with(place_of_work());
}

void LiveWorker::throw_dead() const { throw death(&around_.check); }

void LiveWorker::throw_stuck(std::string_view what) const {
  throw Error(
      ErrorCode::kTimeout,
      fmt::format("worker {} (pid {}) made no progress for {} ms while the loader waited "
                  "for {}: no batch, no call of a function, no byte of a file; {}. If one call "
                  "takes that long, raise the option timeout",
                  process_.worker_id, pid(), around_.options.timeout.count(), what, doing()),
      place_of_work());
}

// Changes with each batch, each call of a function that begins, and each read of a file that ends.
std::uint64_t LiveWorker::progress() const {
  const WorkerStatus& status = channel_->status();
  const StatisticsBlock* const block = find_statistics(channel_->statistics());
  return status.progress_count() + status.bytes_read_count() +
         (block != nullptr ? works_begun(block->work) : 0);
}

RingUnit LiveWorker::next_message() {
  RingUnit unit = channel_->samples().try_read();
  if (unit.status == RingStatus::kItem) {
    return unit;
  }
  const std::array gone = peer_gone();
  std::uint64_t last_progress = progress();
  Patience patience(around_.options.timeout);
  while (true) {
    around_.check.look();
    const Deadline step = WaitCheck::step(patience.look());
    unit = channel_->samples().read({.deadline = step, .peer_gone = gone});
    switch (unit.status) {
      case RingStatus::kItem:
        around_.check.look_after_wait();  // the message stays until it is released
        return unit;
      case RingStatus::kTimedOut: {
        const std::uint64_t now = progress();
        if (std::exchange(last_progress, now) != now) {
          patience.renew();
        } else if (patience.is_over()) {
          throw_stuck("a batch");
        }
        break;
      }
      case RingStatus::kClosed:
      case RingStatus::kPeerDied:
        throw_dead();
    }
  }
}

std::optional<Sample> LiveWorker::read(std::size_t stream) {
  while (true) {
    const RingUnit unit = next_message();
    const BatchHead head = head_of(unit.bytes, place());
    const bool is_of_a_stream =
        head.kind == SampleMessage::kBatch || head.kind == SampleMessage::kEpochEnd;
    if (is_of_a_stream && head.stream != stream) {
      throw Error(ErrorCode::kInternal,
                  fmt::format("a worker sent stream {} when it was the turn of stream {}",
                              head.stream, stream),
                  place());
    }
    switch (head.kind) {
      case SampleMessage::kBatch: {
        const Received received = receive(unit.bytes);
        // The unit is released by take().
        return decode_sample(received.encoded, received.slots, shards_);
      }
      case SampleMessage::kReports:
        receive_reports(unit.bytes);
        continue;
      case SampleMessage::kEpochEnd:
        channel_->samples().release();
        count_pending();
        return std::nullopt;
      case SampleMessage::kFailure: {
        count_pending();
        const std::string encoded(as_text(unit.bytes.subspan(sizeof(head))));
        channel_->samples().release();
        throw decode_error(encoded).with(place());
      }
    }
    throw Error(ErrorCode::kCorruptData, "a message from a worker has an unknown kind", place());
  }
}

void LiveWorker::take() {
  count_pending();
  channel_->samples().release();
  ++taken_;
}

LiveWorker::Received LiveWorker::receive(ByteView unit) {
  const BatchHead head = head_of(unit, place());
  const std::uint64_t references = head.slot_count * std::uint64_t{sizeof(SlotReference)};
  if ((head.slot_count == 0 && head.inlined_bytes == 0) ||
      unit.size() - sizeof(head) != references + head.inlined_bytes) {
    throw Error(ErrorCode::kCorruptData, "a batch from a worker names a wrong number of slots",
                place());
  }
  Received received;
  std::vector<SharedBytes>& slots = received.slots;
  slots.reserve(head.slot_count + std::size_t{1});
  if (head.inlined_bytes > 0) {
    slots.emplace_back();  // there is no slot 0
    received.encoded = as_text(unit.subspan(sizeof(head) + references));
  }
  for (std::uint32_t i = 0; i < head.slot_count; ++i) {
    SlotReference reference;
    std::memcpy(&reference, unit.data() + sizeof(head) + i * sizeof(reference), sizeof(reference));
    slots.push_back(channel_->arena().lease(reference).shared_bytes());
  }
  if (head.inlined_bytes > 0) {
    return received;
  }
  if (head.encoded_offset > slots[0].size() ||
      head.encoded_bytes > slots[0].size() - head.encoded_offset) {
    throw Error(ErrorCode::kCorruptData, "a batch from a worker does not lie in its slot", place());
  }
  received.encoded = slots[0].text().substr(head.encoded_offset, head.encoded_bytes);
  return received;
}

// Reports count when the batch that they precede arrives: if the worker dies before that, the batch
// is made again and reports again.
void LiveWorker::receive_reports(ByteView unit) {
  const Received received = receive(unit);
  channel_->samples().release();
  for (const FailureReport& report : decode_reports(received.encoded)) {
    pending_.add(report);
    around_.failures.quarantine(report);
  }
}

void LiveWorker::count_pending() { around_.failures.count(std::exchange(pending_, {})); }

void LiveWorker::send(const Command& command, Deadline deadline) {
  const std::array gone = peer_gone();
  const RingSpace space =
      channel_->commands().begin(sizeof(command), {.deadline = deadline, .peer_gone = gone});
  switch (space.status) {
    case RingStatus::kItem:
      std::memcpy(space.bytes.data(), &command, sizeof(command));
      channel_->commands().commit();
      return;
    case RingStatus::kTimedOut:
      throw_stuck("room for a command");
    case RingStatus::kClosed:
    case RingStatus::kPeerDied:
      throw_dead();
  }
}

void LiveWorker::start_epoch(std::int64_t epoch, Deadline deadline) {
  progress_before_epoch_ = channel_->status().progress_count();
  send({.kind = CommandKind::kNextEpoch, .argument = static_cast<std::uint64_t>(epoch)}, deadline);
}

bool LiveWorker::died_before_epoch() const {
  return ended() && progress_before_epoch_ == channel_->status().progress_count();
}

bool LiveWorker::try_send(const Command& command) {
  const RingSpace space = channel_->commands().try_begin(sizeof(command));
  if (space.status != RingStatus::kItem) {
    return false;
  }
  std::memcpy(space.bytes.data(), &command, sizeof(command));
  channel_->commands().commit();
  return true;
}

std::optional<CheckpointAnswer> LiveWorker::checkpoint_answer(std::size_t stream,
                                                              std::uint64_t delivered,
                                                              Deadline deadline) {
  const std::array gone = peer_gone();
  while (true) {
    around_.check.look();
    const Deadline step = WaitCheck::step(deadline);
    const RingUnit unit = channel_->results().read({.deadline = step, .peer_gone = gone});
    if (unit.status == RingStatus::kTimedOut && step != deadline) {
      continue;
    }
    CheckpointAnswer answer;
    if (unit.status != RingStatus::kItem || unit.bytes.size() != sizeof(answer)) {
      return std::nullopt;
    }
    std::memcpy(&answer, unit.bytes.data(), sizeof(answer));
    channel_->results().release();
    // An answer that came too late for an earlier call may come first; it is passed over.
    if (answer.stream == stream && answer.delivered == delivered) {
      return answer;
    }
  }
}

void LiveWorker::add_statistics(WorkerStatistics& sum) const {
  const StatisticsBlock* const block = find_statistics(channel_->statistics());
  if (block == nullptr) {
    return;  // scribbled over: nothing to learn, and nothing to fail for
  }
  WorkerStatistics run = read_statistics(*block);
  // Both counters are only roughly of the same moment.
  const std::uint64_t made = std::clamp<std::uint64_t>(
      run.batches, taken_,
      taken_ + static_cast<std::uint64_t>(most_batches_ahead(around_.options)));
  run.queue_depth = static_cast<std::int64_t>(made - taken_);
  add_run(sum, run);
}

void LiveWorker::end(Deadline deadline) {
  try {
    if (!process_.process.wait_ended(deadline)) {
      process_.process.send_signal(SIGKILL);
      process_.process.wait_ended(deadline_after(kKilledEndsWithin));
    }
  } catch (const Error&) {
    // The worker is gone or unkillable; the fork server reaps it whenever it ends.
  }
  if (ended()) {
    channel_->set_worker_ended();
  }
  around_.fork_server.forget(process_);
}

}  // namespace energon
