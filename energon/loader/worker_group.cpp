#include "energon/loader/worker_group.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "energon/process/wait.h"
#include "energon/stage/dataset.h"
#include "energon/worker/channel_sizes.h"
#include "energon/worker/protocol.h"
#include "energon/worker/statistics_block.h"
#include "energon/worker/transport.h"
#include "energon/worker/worker_main.h"
#include "io/error.h"

namespace energon {

// --- LiveWorker ---

namespace {

// Deadline for the report of a worker's end.
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
    return "it had not started";
  }
  std::string text =
      fmt::format("it was making batch {} of logical shard {}", item->second, item->first);
  if (const auto work = current_work(channel_->statistics())) {
    text += ", " + describe(*work);
  }
  return text;
}

// The first sample of the current user function, if any.
ErrorContext LiveWorker::place_of_work() const {
  ErrorContext context = place();
  if (const auto work = current_work(channel_->statistics())) {
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
    return error.with(place());  // no sample is involved
  }
  return error.with(place_of_work());
}

void LiveWorker::throw_dead() const { throw death(&around_.check); }

void LiveWorker::throw_stuck(std::string_view what) const {
  throw Error(
      ErrorCode::kTimeout,
      fmt::format(
          "worker {} (pid {}) made no progress for {} ms while the loader waited "
          "for {}: no batch, no call of a function, no byte read from a file; {}. If one call "
          "takes that long, raise the option timeout",
          process_.worker_id, pid(), around_.options.timeout.count(), what, doing()),
      place_of_work());
}

// Changes with each batch, the start of each function call, and the end of each file read.
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
  ProgressTimeout patience(around_.options.timeout);
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

std::optional<Sample> LiveWorker::read(std::size_t local_index) {
  while (true) {
    const RingUnit unit = next_message();
    const BatchHead head = head_of(unit.bytes, place());
    const bool is_of_a_logical_shard =
        head.kind == SampleMessage::kBatch || head.kind == SampleMessage::kEpochEnd;
    if (is_of_a_logical_shard && head.local_index != local_index) {
      throw Error(
          ErrorCode::kInternal,
          fmt::format(
              "a worker sent a batch of logical shard {} when it was the turn of logical shard {}",
              head.local_index, local_index),
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
    throw Error(ErrorCode::kCorruptData, "a batch from a worker has a wrong number of slots",
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
    throw Error(ErrorCode::kCorruptData, "a batch from a worker is not within its slot", place());
  }
  received.encoded = slots[0].text().substr(head.encoded_offset, head.encoded_bytes);
  return received;
}

// Reports count when the batch after them arrives: if the worker dies before that, the batch is
// made and reported again.
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

std::optional<CheckpointAnswer> LiveWorker::checkpoint_answer(std::size_t local_index,
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
    // A late answer to an earlier call may come first; skip it.
    if (answer.local_index == local_index && answer.delivered == delivered) {
      return answer;
    }
  }
}

void LiveWorker::add_statistics(WorkerStatistics& sum) const {
  const StatisticsBlock* const block = find_statistics(channel_->statistics());
  if (block == nullptr) {
    return;  // overwritten: ignore it rather than fail
  }
  WorkerStatistics run = read_statistics(*block);
  // The two counters are not read at exactly the same time.
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
    // The worker is gone or unkillable; the fork server reaps it when it ends.
  }
  if (ended()) {
    channel_->set_worker_ended();
  }
  around_.fork_server.forget(process_);
}

namespace {

// How long a worker may take to end by itself before it is killed.
constexpr std::chrono::milliseconds kStopGrace{200};

}  // namespace

// --- WorkerGroup ---

WorkerGroup::WorkerGroup(PipelineFactory make_pipeline, const LoaderOptions& options,
                         FailureLog& failures, WaitCheck& check)
    : options_(options),
      failures_(failures),
      check_(check),
      fork_server_([make_pipeline = std::move(make_pipeline), options](
                       WorkerStart& start) { return run_worker(start, make_pipeline, options); },
                   {.hooks = options.fork_hooks, .stop_grace = kStopGrace}),
      ended_workers_(static_cast<std::size_t>(options.worker_config.num_workers)) {}

// Before leaving their memory, which batches may outlive.
WorkerGroup::~WorkerGroup() {
  if (owner_.is_current()) {
    end_workers();
  }
}

// Starts worker `id` with the logical shards that it serves: id, id + workers, …
LiveWorker WorkerGroup::started_worker(
    int id, std::span<const SavableDatasetCheckpoint> initial_checkpoints, std::int64_t epoch,
    const AddressSpace& space) {
  const int workers = options_.worker_config.num_workers;
  WorkerAssignment beginning{.checkpoints = {}, .epoch = epoch};
  for (auto local_index = static_cast<std::size_t>(id); local_index < initial_checkpoints.size();
       local_index += static_cast<std::size_t>(workers)) {
    beginning.checkpoints.push_back(initial_checkpoints[local_index]);
  }
  const std::string encoded = encode_assignment(beginning);
  auto channel =
      std::make_unique<ParentEndpoint>(fit_into(channel_options(options_, id), space, workers));
  format_statistics(channel->statistics());
  WorkerProcess process = fork_server_.spawn({.worker_id = id,
                                              .generation = generation_,
                                              .payload = as_bytes(encoded),
                                              .descriptors = channel->descriptors()},
                                             deadline_after(options_.timeout), &check_);
  return {
      std::move(channel),
      std::move(process),
      {.options = options_, .fork_server = fork_server_, .check = check_, .failures = failures_}};
}

void WorkerGroup::start(std::span<const SavableDatasetCheckpoint> checkpoints, std::int64_t epoch) {
  owner_.check("a loader");
  std::vector<LiveWorker> started;
  const auto publish = [&] {
    const MutexLock lock(mutex_);
    workers_ = std::move(started);
  };
  try {
    const AddressSpace space = AddressSpace::now();
    for (int i = 0; i < options_.worker_config.num_workers; ++i) {
      started.push_back(started_worker(i, checkpoints, epoch, space));
      worker_fds_.push_back(started.back().fd());
    }
    ++generation_;
  } catch (...) {
    publish();
    stop();
    throw;
  }
  publish();
}

void WorkerGroup::end_workers() {
  for (LiveWorker& worker : workers()) {
    worker.close();
  }
  const Deadline deadline = deadline_after(kStopGrace);
  for (LiveWorker& worker : workers()) {
    worker.end(deadline);
  }
}

void WorkerGroup::stop() {
  owner_.check("a loader");  // otherwise a copy in a forked child would end the parent's workers
  std::vector<std::uint64_t> deaths;
  for (const LiveWorker& worker : workers()) {
    deaths.push_back(worker.ended() ? 1 : 0);
  }
  end_workers();
  worker_fds_.clear();
  std::vector<LiveWorker> ended;  // unmapped without the lock
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < deaths.size(); ++i) {
    ended_workers_[i].deaths += deaths[i];
  }
  ended_workers_ = sums();
  for (WorkerStatistics& worker : ended_workers_) {
    worker.queue_depth = 0;
  }
  ended.swap(workers_);
}

bool WorkerGroup::running() const {
  const MutexLock lock(mutex_);
  return !workers_.empty();
}

std::vector<WorkerStatistics> WorkerGroup::sums() const {
  std::vector<WorkerStatistics> sums = ended_workers_;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].add_statistics(sums[i]);
  }
  return sums;
}

std::vector<WorkerStatistics> WorkerGroup::statistics() const {
  owner_.check("a loader");
  const MutexLock lock(mutex_);
  return sums();
}

bool WorkerGroup::has_dead_worker() const { return any_ready(worker_fds_); }

std::optional<Error> WorkerGroup::death(const Turns& turns) {
  if (!has_dead_worker()) {
    return std::nullopt;
  }
  const auto logical_shards =
      static_cast<std::size_t>(options_.worker_config.logical_shards_per_rank());
  for (std::size_t local_index = 0; local_index < logical_shards; ++local_index) {
    if (turns.of(local_index).epoch <= turns.epoch() && worker_of(local_index).ended()) {
      return worker_of(local_index).death(nullptr);
    }
  }
  return std::nullopt;
}

std::optional<Sample> WorkerGroup::read(std::size_t local_index) {
  owner_.check("a loader");
  return worker_of(local_index).read(local_index);
}

void WorkerGroup::take(std::size_t local_index) { worker_of(local_index).take(); }

void WorkerGroup::start_epoch(std::int64_t epoch) {
  for (LiveWorker& worker : workers()) {
    worker.start_epoch(epoch, deadline_after(options_.timeout));
  }
}

const CheckpointReader& WorkerGroup::ring_of(std::size_t local_index) const {
  return workers_[local_index % workers_.size()].checkpoints(local_index / workers_.size());
}

std::string WorkerGroup::newest_checkpoint(std::size_t local_index,
                                           const CheckpointPlace& position) const {
  owner_.check("a loader");
  const MutexLock lock(mutex_);
  const CheckpointReader& ring = ring_of(local_index);
  const auto delivered = static_cast<std::uint64_t>(position.index);
  const auto is_late = [&position](const Checkpoint& checkpoint) {
    return place_of_checkpoint(as_text(checkpoint.bytes)).epoch > position.epoch;
  };
  auto found = ring.newest_not_after(delivered);
  if (found && is_late(*found)) {
    // A later, empty epoch (all samples left out), so the number of batches did not change.
    std::vector<Checkpoint> all = ring.between(0, delivered);
    while (!all.empty() && is_late(all.back())) {
      all.pop_back();
    }
    found = all.empty() ? std::nullopt : std::optional(std::move(all.back()));
  }
  return found ? std::string(as_text(found->bytes)) : std::string();
}

std::optional<CheckpointPlace> WorkerGroup::oldest_checkpoint(std::size_t local_index) const {
  owner_.check("a loader");
  const MutexLock lock(mutex_);
  const auto oldest = ring_of(local_index).oldest(kBytesOfPlace);
  return oldest ? std::optional(place_of_checkpoint(as_text(oldest->bytes))) : std::nullopt;
}

std::vector<std::string> WorkerGroup::checkpoints_until(std::size_t local_index,
                                                        const CheckpointPlace& position) const {
  owner_.check("a loader");
  const MutexLock lock(mutex_);
  std::vector<std::string> checkpoints;
  for (const Checkpoint& found :
       ring_of(local_index).between(0, static_cast<std::uint64_t>(position.index))) {
    const std::string_view bytes = as_text(found.bytes);
    if (place_of_checkpoint(bytes).leads_to(position)) {
      checkpoints.emplace_back(bytes);
    }
  }
  return checkpoints;
}

std::vector<std::optional<std::int64_t>> WorkerGroup::ask_for_checkpoints(
    std::span<const std::int64_t> delivered, Deadline deadline) {
  std::vector<bool> is_asked(delivered.size());
  std::vector<std::optional<std::int64_t>> indexes(delivered.size());
  for (std::size_t i = 0; i < delivered.size(); ++i) {
    LiveWorker& worker = worker_of(i);
    is_asked[i] =
        !worker.ended() && worker.try_send({.kind = CommandKind::kGetCheckpoint,
                                            .local_index = static_cast<std::uint32_t>(i),
                                            .argument = static_cast<std::uint64_t>(delivered[i])});
  }
  for (std::size_t i = 0; i < delivered.size(); ++i) {
    if (!is_asked[i]) {
      continue;
    }
    const auto answer =
        worker_of(i).checkpoint_answer(i, static_cast<std::uint64_t>(delivered[i]), deadline);
    if (answer && answer->found != 0) {
      indexes[i] = static_cast<std::int64_t>(answer->index);
    }
  }
  return indexes;
}

std::vector<int> WorkerGroup::worker_pids() const {
  const MutexLock lock(mutex_);
  std::vector<int> pids;
  for (const LiveWorker& worker : workers_) {
    pids.push_back(worker.pid());
  }
  return pids;
}

}  // namespace energon
