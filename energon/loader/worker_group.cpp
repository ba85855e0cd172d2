#include "energon/loader/worker_group.h"

#include <chrono>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "energon/worker/channel_sizes.h"
#include "energon/worker/protocol.h"
#include "energon/worker/statistics_block.h"
#include "energon/worker/worker_main.h"
#include "io/error.h"

namespace energon {
namespace {

// How long a worker may take to end by itself before it is killed.
constexpr std::chrono::milliseconds kStopGrace{200};

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

// Before their memory is left, which batches may outlive.
WorkerGroup::~WorkerGroup() {
  if (owner_.is_current()) {
    end_workers();
  }
}

// Starts worker `id` with the streams that it serves: id, id + workers, …
LiveWorker WorkerGroup::started_worker(int id, std::span<const SavableDatasetCheckpoint> starts,
                                       std::int64_t epoch, const AddressSpace& space) {
  const int workers = options_.worker_config.num_workers;
  WorkerBeginning beginning{.streams = {}, .epoch = epoch};
  for (auto stream = static_cast<std::size_t>(id); stream < starts.size();
       stream += static_cast<std::size_t>(workers)) {
    beginning.streams.push_back(starts[stream]);
  }
  const std::string encoded = encode_beginning(beginning);
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
  owner_.check("a loader");  // or a copy of it in a forked child would end the parent's workers
  std::vector<std::uint64_t> deaths;
  for (const LiveWorker& worker : workers()) {
    deaths.push_back(worker.ended() ? 1 : 0);
  }
  end_workers();
  worker_fds_.clear();
  std::vector<LiveWorker> ended;  // their memory is unmapped without the lock
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < deaths.size(); ++i) {
    earlier_[i].deaths += deaths[i];
  }
  earlier_ = sums();
  for (WorkerStatistics& worker : earlier_) {
    worker.queue_depth = 0;
  }
  ended.swap(workers_);
}

bool WorkerGroup::running() const {
  const MutexLock lock(mutex_);
  return !workers_.empty();
}

std::vector<WorkerStatistics> WorkerGroup::sums() const {
  std::vector<WorkerStatistics> sums = earlier_;
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
  const auto streams = static_cast<std::size_t>(options_.worker_config.stream_count());
  for (std::size_t stream = 0; stream < streams; ++stream) {
    if (turns.of(stream).epoch <= turns.epoch() && worker_of(stream).ended()) {
      return worker_of(stream).death(nullptr);
    }
  }
  return std::nullopt;
}

std::optional<Sample> WorkerGroup::read(std::size_t stream) {
  owner_.check("a loader");
  return worker_of(stream).read(stream);
}

void WorkerGroup::take(std::size_t stream) { worker_of(stream).take(); }

void WorkerGroup::start_epoch(std::int64_t epoch) {
  for (LiveWorker& worker : workers()) {
    worker.start_epoch(epoch, deadline_after(options_.timeout));
  }
}

const CheckpointReader& WorkerGroup::ring_of(std::size_t stream) const {
  return workers_[stream % workers_.size()].checkpoints(stream / workers_.size());
}

std::string WorkerGroup::newest_checkpoint(std::size_t stream,
                                           const CheckpointPlace& position) const {
  owner_.check("a loader");
  const MutexLock lock(mutex_);
  const CheckpointReader& ring = ring_of(stream);
  const auto delivered = static_cast<std::uint64_t>(position.index);
  const auto is_late = [&position](const Checkpoint& checkpoint) {
    return place_of_checkpoint(as_text(checkpoint.bytes)).epoch > position.epoch;
  };
  auto found = ring.newest_not_after(delivered);
  if (found && is_late(*found)) {
    // A later epoch from which all was left out, so that the number of batches did not change.
    std::vector<Checkpoint> all = ring.between(0, delivered);
    while (!all.empty() && is_late(all.back())) {
      all.pop_back();
    }
    found = all.empty() ? std::nullopt : std::optional(std::move(all.back()));
  }
  return found ? std::string(as_text(found->bytes)) : std::string();
}

std::optional<CheckpointPlace> WorkerGroup::oldest_checkpoint(std::size_t stream) const {
  owner_.check("a loader");
  const MutexLock lock(mutex_);
  const auto oldest = ring_of(stream).oldest(kBytesOfPlace);
  return oldest ? std::optional(place_of_checkpoint(as_text(oldest->bytes))) : std::nullopt;
}

std::vector<std::string> WorkerGroup::checkpoints_until(std::size_t stream,
                                                        const CheckpointPlace& position) const {
  owner_.check("a loader");
  const MutexLock lock(mutex_);
  std::vector<std::string> checkpoints;
  for (const Checkpoint& found :
       ring_of(stream).between(0, static_cast<std::uint64_t>(position.index))) {
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
                                            .stream = static_cast<std::uint32_t>(i),
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
