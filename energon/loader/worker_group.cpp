#include "energon/loader/worker_group.h"

#include <chrono>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "energon/worker/channel_sizes.h"
#include "energon/worker/protocol.h"
#include "energon/worker/statistics_block.h"
#include "energon/worker/worker_beginning.h"
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
LiveWorker WorkerGroup::started_worker(int id, std::int64_t epoch, const AddressSpace& space) {
  const int workers = options_.worker_config.num_workers;
  WorkerBeginning beginning{.streams = {}, .epoch = epoch};
  for (auto stream = static_cast<std::size_t>(id); stream < starts_.size();
       stream += static_cast<std::size_t>(workers)) {
    beginning.streams.push_back(starts_[stream]);
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
  try {
    starts_.assign(checkpoints.begin(), checkpoints.end());
    const AddressSpace space = AddressSpace::now();
    for (int i = 0; i < options_.worker_config.num_workers; ++i) {
      workers_.push_back(started_worker(i, epoch, space));
      worker_fds_.push_back(workers_.back().fd());
    }
    ++generation_;
  } catch (...) {
    stop();
    throw;
  }
}

void WorkerGroup::end_workers() {
  for (LiveWorker& worker : workers_) {
    worker.close();
  }
  const Deadline deadline = deadline_after(kStopGrace);
  for (LiveWorker& worker : workers_) {
    worker.end(deadline);
  }
}

void WorkerGroup::stop() {
  owner_.check("a loader");  // or a copy of it in a forked child would end the parent's workers
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    earlier_[i].deaths += workers_[i].ended() ? 1 : 0;
  }
  end_workers();
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
    workers_[i].add_statistics(sums[i]);
  }
  return sums;
}

void WorkerGroup::check_alive() {
  if (!has_dead_worker()) {
    return;
  }
  for (const LiveWorker& worker : workers_) {
    if (worker.ended()) {
      throw worker.death(&check_);
    }
  }
}

bool WorkerGroup::has_dead_worker() const { return any_ready(worker_fds_); }

std::optional<Error> WorkerGroup::death(const Turns& turns) {
  if (!has_dead_worker()) {
    return std::nullopt;
  }
  for (std::size_t stream = 0; stream < starts_.size(); ++stream) {
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
  for (LiveWorker& worker : workers_) {
    worker.start_epoch(epoch, deadline_after(options_.timeout));
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
  const CheckpointReader& ring = worker_of(stream).checkpoints(stream / workers_.size());
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
        worker_of(stream).place());
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
    worker_of(i).send(command, deadline);
  }
  std::vector<SavableDatasetCheckpoint> checkpoints;
  for (std::size_t i = 0; i < delivered.size(); ++i) {
    const CheckpointAnswer answer =
        worker_of(i).checkpoint_answer(i, static_cast<std::uint64_t>(delivered[i]), deadline);
    checkpoints.push_back(
        position(i, delivered[i], answer.found != 0 ? std::optional(answer.index) : std::nullopt));
  }
  return checkpoints;
}

std::vector<int> WorkerGroup::worker_pids() const {
  std::vector<int> pids;
  for (const LiveWorker& worker : workers_) {
    pids.push_back(worker.pid());
  }
  return pids;
}

}  // namespace energon
