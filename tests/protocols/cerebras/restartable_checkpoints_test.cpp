// CER-03 … CER-05, CER-14, CER-15 and CER-22: the times and the contents of states of restartable
// objects. CER-15 is also in tests/energon/checkpoint/rescale_test.cpp.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "protocols/cerebras/restartable_data_loader.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/protocols/cerebras/counting_loader.h"
#include "tests/support/error_of.h"

namespace energon::testing {
namespace {

using Catch::Contains;

// Its state contains the result of worker_state() for its worker.
class Identified : public CountingWorker {
 public:
  using CountingWorker::CountingWorker;
  StateDict state_dict() const {
    StateDict state = CountingWorker::state_dict();
    const WorkerProgress& progress = worker_state();
    state["global"] = progress.worker.global_worker_id();
    state["total"] = progress.worker.total_workers();
    state["step"] = progress.step;
    return state;
  }
};

// Counts calls over all processes: in workers by local worker id, in the parent as worker 3.
struct Calls {
  std::atomic<int> state_dict = 0;
  std::atomic<int> load = 0;
  std::atomic<int> deaggregate = 0;
  std::atomic<int> aggregate = 0;
  std::atomic<int> listed = 0;  // states passed to aggregate
  std::atomic<int> lenient = 0;
};
using CallTable = std::array<Calls, 4>;

class SharedCalls {
 public:
  SharedCalls()
      : memory_(::mmap(nullptr, sizeof(CallTable), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(memory_ != MAP_FAILED);
    table_ = new (memory_) CallTable;
  }
  ~SharedCalls() { ::munmap(memory_, sizeof(CallTable)); }
  SharedCalls(const SharedCalls&) = delete;
  SharedCalls& operator=(const SharedCalls&) = delete;

  CallTable& table() { return *table_; }

 private:
  void* memory_;
  CallTable* table_ = nullptr;
};

class Spy : public CountingWorker {
 public:
  Spy(const WorkerIdentity& worker, CallTable& calls, pid_t parent)
      : CountingWorker(worker, 2),
        calls_(
            &calls[::getpid() == parent ? 3 : static_cast<std::size_t>(worker.local_worker_id)]) {}
  StateDict state_dict() const {
    ++calls_->state_dict;
    return CountingWorker::state_dict();
  }
  void load_state_dict(const StateDict& state, Strictness strictness) {
    ++calls_->load;
    calls_->lenient += strictness == Strictness::kLenient;
    CountingWorker::load_state_dict(state, strictness);
  }
  StateDict aggregate_state_dict(std::span<const StateDict> states) const {
    ++calls_->aggregate;
    calls_->listed += static_cast<int>(states.size());
    return CountingWorker::aggregate_state_dict(states);
  }
  StateDict deaggregate_state_dict(const StateDict& state, Strictness strictness) const {
    ++calls_->deaggregate;
    calls_->lenient += strictness == Strictness::kLenient;
    CHECK(calls_->load < calls_->deaggregate);
    return CountingWorker::deaggregate_state_dict(state, strictness);
  }

 private:
  Calls* calls_;
};

}  // namespace

TEST_CASE("CER-03 states are kept for the steps of the schedule", "[protocols][cer][fork]") {
  const int workers = GENERATE(0, 3);
  RestartableDataLoader loader(counting(4), with_workers(workers, CheckpointSchedule({0, 5, 10})));
  CHECK_THAT(error_of([&] { loader.checkpoints(7); }, ErrorCode::kInvalidArgument),
             Contains("step 7") && Contains("0, 5, 10"));
  take(loader, 6);
  CHECK(loader.checkpoints(10) == std::nullopt);
  const auto at_5 = loader.checkpoints(5);
  REQUIRE(at_5);
  REQUIRE(at_5->size() == static_cast<std::size_t>(std::max(workers, 1)));
  std::int64_t sum = 0;
  for (const DataLoaderCheckpoint& checkpoint : *at_5) {
    CAPTURE(checkpoint.progress.worker_step);
    CHECK(checkpoint.progress.step == 5);
    CHECK(checkpoint.user_state_dict.at("next") == checkpoint.progress.worker_step);
    sum += checkpoint.progress.worker_step;
  }
  CHECK(sum == 5);
  CHECK(loader.checkpoints(0)->front().user_state_dict.at("next") == 0);
  // Steps outside the schedule have no state.
  CHECK_THAT(error_of([&] { loader.state_dict(); }, ErrorCode::kInvalidArgument),
             Contains("0, 5, 10") && Contains("this is step 6"));
}

TEST_CASE("CER-04 the steps of the workers are derived from the step of their rank",
          "[protocols][cer][fork]") {
  const auto [step, expected] = GENERATE(table<std::int64_t, std::vector<std::int64_t>>(
      {{10, {4, 3, 3}}, {7, {4, 3}}, {3, {1, 1, 1, 0}}, {6, {2, 2, 2}}}));
  const auto workers = static_cast<int>(expected.size());
  RestartableDataLoader loader(counting(4), with_workers(workers, CheckpointSchedule({step})));
  take(loader, static_cast<int>(step));
  const auto checkpoints = loader.checkpoints(step);
  REQUIRE(checkpoints);
  for (std::size_t worker = 0; worker < expected.size(); ++worker) {
    CAPTURE(worker);
    CHECK(worker_step(step, static_cast<int>(worker), workers) == expected[worker]);
    CHECK((*checkpoints)[worker].progress.worker_step == expected[worker]);
    CHECK((*checkpoints)[worker].progress.samples_streamed == 4 * expected[worker]);
    CHECK((*checkpoints)[worker].user_state_dict.at("next") == expected[worker]);
  }
}

TEST_CASE("CER-05 a worker has its place while its state is taken, and only then",
          "[protocols][cer][fork]") {
  CHECK_THAT(error_of([] { worker_state(); }, ErrorCode::kInvalidArgument),
             Contains("within state_dict()"));
  const std::vector<std::string> texts = testing::texts(run_group(2, [](Comm& comm) {
    RestartableDataLoader loader(
        [](const PipelineContext& context) { return Identified(worker_identity(context), 1); },
        {.loader = {.worker_config = {.rank = comm.rank(), .world_size = 2, .num_workers = 3}},
         .run = {.schedule = CheckpointSchedule({3})}});
    for (int i = 0; i < 3; ++i) {
      loader.next();
    }
    const auto state = loader.state_dict(comm, 0);
    return state ? state->dump() : std::string("none");
  }));
  const StateDict all = StateDict::parse(texts.at(0)).at("all");
  REQUIRE(all.size() == 6);
  for (int worker = 0; worker < 6; ++worker) {
    CAPTURE(worker);
    const StateDict& state = all.at(static_cast<std::size_t>(worker));
    CHECK(state.at("global") == worker);
    CHECK(state.at("total") == 6);
    CHECK(state.at("step") == 3);
  }
  CHECK(texts.at(1) == "none");
  CHECK_THROWS_AS(worker_state(), Error);
}

TEST_CASE("CER-14 the functions of an object are called only when its state is needed",
          "[protocols][cer][fork]") {
  SharedCalls calls;
  const pid_t parent = ::getpid();
  const auto input = [&calls, parent](const PipelineContext& context) {
    return Spy(worker_identity(context), calls.table(), parent);
  };
  StateDict state;
  {
    RestartableDataLoader loader(input, with_workers(3, CheckpointSchedule({6, 12})));
    take(loader, 12);
    state = loader.state_dict();
    CHECK(loader.state_dict() == state);
    take(loader, 9);
  }
  const Calls& in_parent = calls.table()[3];
  CHECK(in_parent.aggregate == 1);
  CHECK(in_parent.listed == 3);
  CHECK(in_parent.state_dict == 0);
  for (std::size_t worker = 0; worker < 3; ++worker) {
    CAPTURE(worker);
    CHECK(calls.table()[worker].state_dict == 2);
    CHECK(calls.table()[worker].load == 0);
  }
  RestartableDataLoader resumed(input, with_workers(3, CheckpointSchedule({6})));
  resumed.load_state_dict(state, Strictness::kLenient);
  CHECK(in_parent.load == 3);  // tried for each worker before any is applied
  take(resumed, 3);
  for (std::size_t worker = 0; worker < 3; ++worker) {
    CAPTURE(worker);
    CHECK(calls.table()[worker].deaggregate == 1);
    CHECK(calls.table()[worker].load == 1);
    CHECK(calls.table()[worker].lenient == 2);
    CHECK(calls.table()[worker].aggregate == 0);
  }
}

TEST_CASE("CER-15 checkpoints of workers may be in any order, but all must occur once, at one step",
          "[protocols][cer][fork]") {
  RestartableDataLoader loader(counting(1), with_workers(3, CheckpointSchedule({4, 5})));
  take(loader, 5);
  const std::vector<DataLoaderCheckpoint> all = *loader.checkpoints(5);
  const StateDict expected = loader.state_dict();
  CHECK(loader.aggregate({all[2], all[0], all[1]}) == expected);
  CHECK_THAT(error_of(
                 [&] {
                   loader.aggregate({all[0], all[2]});
                 },
                 ErrorCode::kMismatch),
             Contains("worker 1: 0 checkpoints"));
  CHECK_THAT(error_of(
                 [&] {
                   loader.aggregate({all[0], all[1], all[2], all[1]});
                 },
                 ErrorCode::kMismatch),
             Contains("worker 1: 2 checkpoints"));
  CHECK_THAT(error_of(
                 [&] {
                   loader.aggregate({all[0], all[1], (*loader.checkpoints(4))[2]});
                 },
                 ErrorCode::kMismatch),
             Contains("worker 2: at step 4, expected 5"));
}

TEST_CASE("CER-22 steps that fall on the same batch of a worker are kept separately",
          "[protocols][cer][fork]") {
  RestartableDataLoader loader(counting(2), with_workers(3, CheckpointSchedule({9, 10, 11})));
  take(loader, 12);
  const std::vector<std::vector<std::int64_t>> expected = {{3, 3, 3}, {4, 3, 3}, {4, 4, 3}};
  for (std::int64_t step = 9; step <= 11; ++step) {
    CAPTURE(step);
    const auto checkpoints = loader.checkpoints(step);
    REQUIRE(checkpoints);
    for (std::size_t worker = 0; worker < 3; ++worker) {
      CAPTURE(worker);
      const DataLoaderCheckpoint& checkpoint = (*checkpoints)[worker];
      CHECK(checkpoint.progress.step == step);
      CHECK(checkpoint.progress.worker_step ==
            expected[static_cast<std::size_t>(step - 9)][worker]);
      CHECK(checkpoint.user_state_dict.at("next") == checkpoint.progress.worker_step);
    }
  }
}

}  // namespace energon::testing
