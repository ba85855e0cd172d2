#include "energon/loader/worker_group.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "energon/process/patience.h"
#include "energon/stage/worker_exit.h"
#include "energon/worker/arena_reserve.h"
#include "energon/worker/channel_sizes.h"
#include "energon/worker/error_transport.h"
#include "energon/worker/protocol.h"
#include "energon/worker/report_transport.h"
#include "energon/worker/statistics_block.h"
#include "energon/worker/transport.h"
#include "energon/worker/worker_beginning.h"
#include "energon/worker/worker_main.h"
#include "io/error.h"

namespace energon {
namespace {

// How long a worker may take to end by itself before it is killed, and how long the report of its
// end may take.
constexpr std::chrono::milliseconds kStopGrace{200};
constexpr std::chrono::seconds kReportLimit{2};

}  // namespace

WorkerGroup::WorkerGroup(PipelineFactory make_pipeline, const LoaderOptions& options,
                         FailureLog& failures, WaitCheck& check)
    : options_(options),
      failures_(failures),
      check_(check),
      fork_server_([make_pipeline = std::move(make_pipeline), options](
                       WorkerStart& start) { return run_worker(start, make_pipeline, options); },
                   {.hooks = options.fork_hooks, .stop_grace = kStopGrace}),
      earlier_(static_cast<std::size_t>(options.worker_config.num_workers)) {}

void WorkerGroup::start(std::span<const SavableDatasetCheckpoint> checkpoints, std::int64_t epoch) {
  owner_.check("a loader");
  try {
    starts_.assign(checkpoints.begin(), checkpoints.end());
    const int workers = options_.worker_config.num_workers;
    const AddressSpace space = AddressSpace::now();
    for (int i = 0; i < workers; ++i) {
      WorkerBeginning beginning{.streams = {}, .epoch = epoch};
      for (auto stream = static_cast<std::size_t>(i); stream < starts_.size();
           stream += static_cast<std::size_t>(workers)) {
        beginning.streams.push_back(starts_[stream]);
      }
      const std::string encoded = encode_beginning(beginning);
      auto channel =
          std::make_unique<ParentEndpoint>(fit_into(channel_options(options_, i), space, workers));
      format_statistics(channel->statistics());
      WorkerProcess process = fork_server_.spawn({.worker_id = i,
                                                  .generation = generation_,
                                                  .payload = as_bytes(encoded),
                                                  .descriptors = channel->descriptors()},
                                                 deadline_after(options_.timeout), &check_);
      worker_fds_.push_back(process.fd());
      workers_.push_back({std::move(channel), std::move(process)});
    }
    ++generation_;
  } catch (...) {
    stop();
    throw;
  }
}

void WorkerGroup::stop() {
  owner_.check("a loader");  // or a copy of it in a forked child would end the parent's workers
  for (Worker& worker : workers_) {
    worker.channel->close();
  }
  const Deadline deadline = deadline_after(kStopGrace);
  for (Worker& worker : workers_) {
    try {
      if (!worker.process.process.wait_ended(deadline)) {
        worker.process.process.send_signal(SIGKILL);
      }
      fork_server_.exit_of(worker.process, deadline_after(kReportLimit));
    } catch (const Error&) {
      // The worker is gone or unkillable; the fork server reaps it whenever it ends.
    }
  }
  earlier_ = statistics();
  for (WorkerStatistics& worker : earlier_) {
    worker.queue_depth = 0;
  }
  workers_.clear();
  worker_fds_.clear();
}

std::vector<WorkerStatistics> WorkerGroup::statistics() const {
  owner_.check("a loader");
  std::vector<WorkerStatistics> sums = earlier_;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = workers_[i];
    const StatisticsBlock* const block = find_statistics(worker.channel->statistics());
    if (block == nullptr) {
      continue;  // scribbled over: nothing to learn, and nothing to fail for
    }
    WorkerStatistics run = read_statistics(*block);
    // Both counters are only roughly of the same moment.
    const std::uint64_t made = std::clamp<std::uint64_t>(
        run.batches, worker.taken,
        worker.taken + static_cast<std::uint64_t>(most_batches_ahead(options_)));
    run.queue_depth = static_cast<std::int64_t>(made - worker.taken);
    add_run(sums[i], run);
  }
  return sums;
}

std::string WorkerGroup::doing(const Worker& worker) const {
  const auto item = worker.channel->status().item();
  if (!item) {
    return "it had not begun";
  }
  std::string text =
      fmt::format("it was making batch {} of logical shard {}", item->second, item->first);
  if (const auto work = noted_work(worker.channel->statistics())) {
    text += ", " + describe(*work);
  }
  return text;
}

// The first sample that a function of the user was working on, if it was in one.
ErrorContext WorkerGroup::place_of(const Worker& worker) const {
  ErrorContext context{.worker = worker.process.worker_id};
  if (const auto work = noted_work(worker.channel->statistics())) {
    if (!work->shard.empty()) {
      context.path = work->dataset + "/" + work->shard;
    }
    if (!work->keys.empty()) {
      context.sample_key = work->keys.front();
    }
  }
  return context;
}

void WorkerGroup::throw_dead(const Worker& worker) {
  Error error = fork_server_.death_of(
      worker.process, deadline_after(kReportLimit), [&](const ProcessEnd& end) {
        const bool by_watchdog =
            end == ProcessEnd{.kind = ProcessEnd::Kind::kExited, .value = kWatchdogExitCode};
        return doing(worker) +
               (by_watchdog ? ", which took longer than the timeout of its watchdog" : "");
      });
  if (!fork_server_.alive()) {
    throw error.with({.worker = worker.process.worker_id});  // no sample has to do with it
  }
  throw error.with(place_of(worker));
}

void WorkerGroup::throw_stuck(const Worker& worker, std::string_view what) {
  throw Error(ErrorCode::kTimeout,
              fmt::format("worker {} (pid {}) made no progress for {} ms while the loader waited "
                          "for {}; {}. If its work "
                          "takes that long, raise the option timeout",
                          worker.process.worker_id, worker.process.process.pid(),
                          options_.timeout.count(), what, doing(worker)),
              place_of(worker));
}

void WorkerGroup::check_alive() {
  if (!any_ready(worker_fds_)) {
    return;
  }
  for (const Worker& worker : workers_) {
    if (worker.process.process.ended()) {
      throw_dead(worker);
    }
  }
}

std::optional<Error> WorkerGroup::death() {
  try {
    check_alive();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

WorkerGroup::Worker& WorkerGroup::worker_of(std::size_t stream) {
  return workers_[stream % workers_.size()];
}

const WorkerGroup::Worker& WorkerGroup::worker_of(std::size_t stream) const {
  return workers_[stream % workers_.size()];
}

// Waits for the next message. What the worker committed before it died is read first.
RingUnit WorkerGroup::next_message(Worker& worker) {
  RingUnit unit = worker.channel->samples().try_read();
  if (unit.status == RingStatus::kItem) {
    return unit;
  }
  const std::array peer_gone{worker.process.fd(), fork_server_.fd()};
  std::uint64_t progress = worker.channel->status().progress_count();
  Patience patience(options_.timeout);
  while (true) {
    check_.look();
    const Deadline step = WaitCheck::step(patience.look());
    unit = worker.channel->samples().read({.deadline = step, .peer_gone = peer_gone});
    switch (unit.status) {
      case RingStatus::kItem:
        return unit;
      case RingStatus::kTimedOut: {
        const std::uint64_t now = worker.channel->status().progress_count();
        if (std::exchange(progress, now) != now) {
          patience.renew();
        } else if (patience.is_over()) {
          throw_stuck(worker, "a batch");
        }
        break;
      }
      case RingStatus::kClosed:
      case RingStatus::kPeerDied:
        throw_dead(worker);
    }
  }
}

std::optional<Sample> WorkerGroup::read(std::size_t stream) {
  owner_.check("a loader");
  Worker& worker = worker_of(stream);
  const ErrorContext of_worker{.worker = worker.process.worker_id};
  while (true) {
    const RingUnit unit = next_message(worker);
    BatchHead head;
    if (unit.bytes.size() < sizeof(head)) {
      throw Error(ErrorCode::kCorruptData, "a message from a worker is too short", of_worker);
    }
    std::memcpy(&head, unit.bytes.data(), sizeof(head));
    const bool is_of_a_stream =
        head.kind == SampleMessage::kBatch || head.kind == SampleMessage::kEpochEnd;
    if (is_of_a_stream && head.stream != stream) {
      throw Error(ErrorCode::kInternal,
                  fmt::format("a worker sent stream {} when it was the turn of stream {}",
                              head.stream, stream),
                  of_worker);
    }
    switch (head.kind) {
      case SampleMessage::kBatch: {
        const Received received = receive(worker, unit.bytes);
        // The unit is released by take().
        return decode_sample(received.encoded, received.slots, worker.shards);
      }
      case SampleMessage::kReports:
        receive_reports(worker, unit.bytes);
        continue;
      case SampleMessage::kEpochEnd:
        worker.channel->samples().release();
        return std::nullopt;
      case SampleMessage::kFailure: {
        const std::string encoded(as_text(unit.bytes.subspan(sizeof(head))));
        worker.channel->samples().release();
        throw decode_error(encoded).with({.worker = worker.process.worker_id});
      }
    }
    throw Error(ErrorCode::kCorruptData, "a message from a worker has an unknown kind", of_worker);
  }
}

void WorkerGroup::take(std::size_t stream) {
  Worker& worker = worker_of(stream);
  worker.channel->samples().release();
  ++worker.taken;
}

WorkerGroup::Received WorkerGroup::receive(Worker& worker, ByteView unit) {
  BatchHead head;
  std::memcpy(&head, unit.data(), sizeof(head));
  const std::uint64_t references = head.slot_count * std::uint64_t{sizeof(SlotReference)};
  if ((head.slot_count == 0 && head.inlined_bytes == 0) ||
      unit.size() - sizeof(head) != references + head.inlined_bytes) {
    throw Error(ErrorCode::kCorruptData, "a batch from a worker names a wrong number of slots",
                {.worker = worker.process.worker_id});
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
    slots.push_back(worker.channel->arena().lease(reference).shared_bytes());
  }
  if (head.inlined_bytes > 0) {
    return received;
  }
  if (head.encoded_offset > slots[0].size() ||
      head.encoded_bytes > slots[0].size() - head.encoded_offset) {
    throw Error(ErrorCode::kCorruptData, "a batch from a worker does not lie in its slot",
                {.worker = worker.process.worker_id});
  }
  received.encoded = slots[0].text().substr(head.encoded_offset, head.encoded_bytes);
  return received;
}

void WorkerGroup::receive_reports(Worker& worker, ByteView unit) {
  const Received received = receive(worker, unit);
  worker.channel->samples().release();
  for (const FailureReport& report : decode_reports(received.encoded)) {
    failures_.add(report);
  }
}

void WorkerGroup::send_command(Worker& worker, const void* command, std::size_t size,
                               Deadline deadline) {
  const std::array peer_gone{worker.process.fd(), fork_server_.fd()};
  const RingSpace space =
      worker.channel->commands().begin(size, {.deadline = deadline, .peer_gone = peer_gone});
  switch (space.status) {
    case RingStatus::kItem:
      std::memcpy(space.bytes.data(), command, size);
      worker.channel->commands().commit();
      return;
    case RingStatus::kTimedOut:
      throw_stuck(worker, "room for a command");
    case RingStatus::kClosed:
    case RingStatus::kPeerDied:
      throw_dead(worker);
  }
}

void WorkerGroup::start_epoch(std::int64_t epoch) {
  check_alive();
  const Command command{.kind = CommandKind::kNextEpoch,
                        .argument = static_cast<std::uint64_t>(epoch)};
  for (Worker& worker : workers_) {
    send_command(worker, &command, sizeof(command), deadline_after(options_.timeout));
  }
}

std::vector<SavableDatasetCheckpoint> WorkerGroup::positions(
    std::span<const std::int64_t> delivered) const {
  owner_.check("a loader");
  std::vector<SavableDatasetCheckpoint> positions;
  positions.reserve(delivered.size());
  for (std::size_t i = 0; i < delivered.size(); ++i) {
    positions.push_back(position(i, delivered[i], static_cast<std::uint64_t>(delivered[i])));
  }
  return positions;
}

// From the newest checkpoint of `stream` not after `index` (nothing: none is stored). The one to
// take is there, whatever the worker does or did: Note [Kept checkpoints] in
// energon/worker/batch_sender.h.
SavableDatasetCheckpoint WorkerGroup::position(std::size_t stream, std::int64_t delivered,
                                               std::optional<std::uint64_t> index) const {
  const Worker& worker = worker_of(stream);
  const CheckpointReader& ring = worker.channel->checkpoints(stream / workers_.size());
  SavableDatasetCheckpoint position;
  if (const auto stored = index ? ring.newest_not_after(*index) : std::nullopt) {
    ByteReader reader(as_text(stored->bytes), "a checkpoint of a worker");
    position = decode_checkpoint(reader);
  } else if (const SavableDatasetCheckpoint& start = starts_[stream];
             delivered == start.index + start.offset) {
    position = start;
  } else {
    // The start would do, but for samples that were left out on the way and may not be again.
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("{} batches of logical shard {} were delivered, but the worker's memory "
                    "holds no whole checkpoint: something wrote over it",
                    delivered, starts_[stream].logical_shard),
        {.worker = worker.process.worker_id});
  }
  position.offset = delivered - position.index;
  return position;
}

std::vector<SavableDatasetCheckpoint> WorkerGroup::get_checkpoints(
    std::span<const std::int64_t> delivered) {
  check_alive();
  const Deadline deadline = deadline_after(options_.timeout);
  for (std::size_t i = 0; i < delivered.size(); ++i) {
    const Command command{.kind = CommandKind::kGetCheckpoint,
                          .stream = static_cast<std::uint32_t>(i),
                          .argument = static_cast<std::uint64_t>(delivered[i])};
    send_command(worker_of(i), &command, sizeof(command), deadline);
  }
  std::vector<SavableDatasetCheckpoint> checkpoints;
  for (std::size_t i = 0; i < delivered.size(); ++i) {
    checkpoints.push_back(receive_checkpoint(i, delivered[i], deadline));
  }
  return checkpoints;
}

SavableDatasetCheckpoint WorkerGroup::receive_checkpoint(std::size_t stream, std::int64_t delivered,
                                                         Deadline deadline) {
  Worker& worker = worker_of(stream);
  const std::array peer_gone{worker.process.fd(), fork_server_.fd()};
  while (true) {
    check_.look();
    const Deadline step = WaitCheck::step(deadline);
    const RingUnit unit =
        worker.channel->results().read({.deadline = step, .peer_gone = peer_gone});
    if (unit.status == RingStatus::kTimedOut) {
      if (step == deadline) {
        throw_stuck(worker, "its checkpoint");
      }
      continue;
    }
    CheckpointAnswer answer;
    if (unit.status != RingStatus::kItem || unit.bytes.size() != sizeof(answer)) {
      throw_dead(worker);
    }
    std::memcpy(&answer, unit.bytes.data(), sizeof(answer));
    worker.channel->results().release();
    // An answer to an earlier save that timed out may come first; it is passed over.
    if (answer.stream == stream && answer.delivered == static_cast<std::uint64_t>(delivered)) {
      return position(stream, delivered,
                      answer.found != 0 ? std::optional(answer.index) : std::nullopt);
    }
  }
}

std::vector<int> WorkerGroup::worker_pids() const {
  std::vector<int> pids;
  for (const Worker& worker : workers_) {
    pids.push_back(worker.process.process.pid());
  }
  return pids;
}

}  // namespace energon
