// Acceptance tests of the restartable protocol: CER-01 … CER-05, CER-14, CER-16 … CER-19, CER-21,
// CER-22. Those of its map-style and its iterable implementation are in restartable_map_test.cpp
// and restartable_stream_test.cpp, CER-15 also in tests/energon/checkpoint/rescale_test.cpp.

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/compat/restartable_data_loader.h"
#include "io/error.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/energon/protocols/counting_loader.h"
#include "tests/support/error_of.h"

namespace energon::testing {
namespace {

using Catch::Contains;

// What only yields.
struct Plain {
  std::optional<Sample> next() { return keys_batch(1, "plain"); }
};

struct ThreeOfFour : Plain {
  StateDict state_dict() { return {}; }
  void load_state_dict(const StateDict& /*state*/) {}
  StateDict aggregate_state_dict(std::span<const StateDict> /*states*/) { return {}; }
};

struct WithoutStrictness : ThreeOfFour {
  StateDict deaggregate_state_dict(const StateDict& state) { return state; }
};

struct StrictLoadOnly : Plain {
  StateDict state_dict() { return {}; }
  void load_state_dict(const StateDict& /*state*/,
                       Strictness /*strictness*/ = Strictness::kStrict) {}
  StateDict aggregate_state_dict(std::span<const StateDict> /*states*/) { return {}; }
  StateDict deaggregate_state_dict(const StateDict& state) { return state; }
};

template <class Object>
using Input = Object (*)(const PipelineContext&);

template <class Object>
Object make(const PipelineContext& /*context*/) {
  return {};
}

}  // namespace

TEST_CASE("CER-01 an object with all four functions is restartable, others are run without states",
          "[protocols][cer]") {
  STATIC_REQUIRE(Restartable<CountingWorker>);
  STATIC_REQUIRE_FALSE(Restartable<ThreeOfFour>);
  STATIC_REQUIRE_FALSE(Restartable<Plain>);
  CHECK(RestartableDataLoader(counting(1)).restartable());
  RestartableDataLoader three(make<ThreeOfFour>);
  RestartableDataLoader plain(make<Plain>);
  for (RestartableDataLoader* loader : {&three, &plain}) {
    CHECK_FALSE(loader->restartable());
    CHECK_THAT(error_of([&] { loader->state_dict(); }, ErrorCode::kUnsupported),
               Contains("deaggregate_state_dict()"));
    CHECK_THAT(error_of([&] { loader->load_state_dict({}); }, ErrorCode::kUnsupported),
               Contains("not restartable"));
    CHECK(next_key(*loader) == "plain");
  }
}

TEST_CASE("CER-02 strictness is taken by load and deaggregate, or by neither", "[protocols][cer]") {
  STATIC_REQUIRE_FALSE(Restartable<StrictLoadOnly>);
  // Not taken for an object without states either: such an input does not compile.
  STATIC_REQUIRE_FALSE(
      std::is_constructible_v<RestartableDataLoader, Input<StrictLoadOnly>, RestartableOptions>);
  STATIC_REQUIRE(std::is_constructible_v<RestartableDataLoader, Input<Plain>, RestartableOptions>);
  STATIC_REQUIRE(Restartable<WithoutStrictness>);
  RestartableDataLoader loader(make<WithoutStrictness>);
  CHECK_NOTHROW(loader.load_state_dict(StateDict::object(), Strictness::kLenient));
}

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
    CHECK(checkpoint.progress.step == 5);
    CHECK(checkpoint.user_state_dict.at("next") == checkpoint.progress.worker_step);
    sum += checkpoint.progress.worker_step;
  }
  CHECK(sum == 5);
  CHECK(loader.checkpoints(0)->front().user_state_dict.at("next") == 0);
  // At a step that is not in the schedule no state can be had.
  CHECK_THAT(error_of([&] { loader.state_dict(); }, ErrorCode::kInvalidArgument),
             Contains("0, 5, 10") && Contains("this is step 6"));
}

TEST_CASE("CER-04 the steps of the workers follow from the step of their rank",
          "[protocols][cer][fork]") {
  const auto [step, expected] = GENERATE(table<std::int64_t, std::vector<std::int64_t>>(
      {{10, {4, 3, 3}}, {7, {4, 3}}, {3, {1, 1, 1, 0}}, {6, {2, 2, 2}}}));
  const auto workers = static_cast<int>(expected.size());
  RestartableDataLoader loader(counting(4), with_workers(workers, CheckpointSchedule({step})));
  take(loader, static_cast<int>(step));
  const auto checkpoints = loader.checkpoints(step);
  REQUIRE(checkpoints);
  for (std::size_t worker = 0; worker < expected.size(); ++worker) {
    CHECK(worker_step(step, static_cast<int>(worker), workers) == expected[worker]);
    CHECK((*checkpoints)[worker].progress.worker_step == expected[worker]);
    CHECK((*checkpoints)[worker].progress.samples_streamed == 4 * expected[worker]);
    CHECK((*checkpoints)[worker].user_state_dict.at("next") == expected[worker]);
  }
}

namespace {

// Puts what it knows of its worker into its state.
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

}  // namespace

TEST_CASE("CER-05 a worker knows its place while its state is taken, and only then",
          "[protocols][cer][fork]") {
  CHECK_THAT(error_of([] { worker_state(); }, ErrorCode::kInvalidArgument),
             Contains("inside of state_dict()"));
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
    const StateDict& state = all.at(static_cast<std::size_t>(worker));
    CHECK(state.at("global") == worker);
    CHECK(state.at("total") == 6);
    CHECK(state.at("step") == 3);
  }
  CHECK(texts.at(1) == "none");
  CHECK_THROWS_AS(worker_state(), Error);
}

namespace {

// Counts calls over all processes: in workers by local worker id, in the parent as worker 3.
struct Calls {
  std::atomic<int> state_dict = 0;
  std::atomic<int> load = 0;
  std::atomic<int> deaggregate = 0;
  std::atomic<int> aggregate = 0;
  std::atomic<int> listed = 0;  // states that aggregate got
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

TEST_CASE("CER-14 the functions of an object are called as often as its state is needed",
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
    CHECK(calls.table()[worker].state_dict == 2);
    CHECK(calls.table()[worker].load == 0);
  }
  RestartableDataLoader resumed(input, with_workers(3, CheckpointSchedule({6})));
  resumed.load_state_dict(state, Strictness::kLenient);
  CHECK(in_parent.load == 3);  // tried before anything is applied
  take(resumed, 3);
  for (std::size_t worker = 0; worker < 3; ++worker) {
    CHECK(calls.table()[worker].deaggregate == 1);
    CHECK(calls.table()[worker].load == 1);
    CHECK(calls.table()[worker].lenient == 2);
    CHECK(calls.table()[worker].aggregate == 0);
  }
}

TEST_CASE("CER-15 checkpoints of workers may come in any order, but all, once, and of one step",
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
             Contains("worker 2: of step 4, expected 5"));
}

TEST_CASE("CER-16 a state is loaded before the first batch, and shares nothing with what was given",
          "[protocols][cer]") {
  RestartableDataLoader loader(counting(1), with_workers(0, CheckpointSchedule::every(1)));
  CHECK(next_key(loader) == "0:0");
  StateDict state = loader.state_dict();
  CHECK_THAT(error_of([&] { loader.load_state_dict(state); }, ErrorCode::kInvalidArgument),
             Contains("before the first batch only; 1 were taken"));
  const StateDict expected = state;
  state["all"] = "changed";
  CHECK(loader.state_dict() == expected);
  CHECK(next_key(loader) == "0:1");
}

TEST_CASE("CER-17 what was loaded is the state until a batch is taken", "[protocols][cer][fork]") {
  const int workers = GENERATE(0, 2);
  const std::size_t count = workers == 0 ? 1 : 2;
  const StateDict state = {{"all", StateDict::array()}, {"note", "of the user"}};
  StateDict loaded = state;
  for (std::size_t worker = 0; worker < count; ++worker) {
    loaded["all"].push_back({{"next", 40 + worker}});
  }
  RestartableDataLoader loader(counting(1), with_workers(workers, CheckpointSchedule({1})));
  loader.load_state_dict(loaded);
  CHECK(loader.state_dict() == loaded);
  CHECK(next_key(loader) == "0:40");
  CHECK(loader.state_dict().at("all").at(0).at("next") == 41);
  if (workers == 2) {
    // Worker 1 has made none of the rank's first batch.
    CHECK(loader.state_dict().at("all").at(1).at("next") == 41);
    CHECK(next_key(loader) == "1:41");
  }
}

namespace {

// Batches of these sizes, then the end.
class Sized : public CountingWorker {
 public:
  Sized(const WorkerIdentity& worker, std::vector<std::int64_t> sizes)
      : CountingWorker(worker, 1), sizes_(std::move(sizes)) {}
  std::optional<Sample> next() {
    if (position_ == sizes_.size()) {
      position_ = 0;
      return std::nullopt;
    }
    return keys_batch(sizes_[position_++], "k");
  }

 private:
  std::vector<std::int64_t> sizes_;
  std::size_t position_ = 0;
};

auto sized(std::vector<std::int64_t> sizes) {
  return [sizes = std::move(sizes)](const PipelineContext& context) {
    return Sized(worker_identity(context), sizes);
  };
}

}  // namespace

TEST_CASE("CER-18 while states are saved only the last batch may be smaller", "[protocols][cer]") {
  RestartableDataLoader loader(sized({4, 3, 4}), with_workers(0, CheckpointSchedule({9})));
  take(loader, 2);
  CHECK_THAT(error_of([&] { loader.next(); }, ErrorCode::kInvalidArgument),
             Contains("batch 1") && Contains("3 samples") && Contains("have 4"));
  RestartableOptions once = with_workers(0, CheckpointSchedule({9}));
  once.run.repeat = false;
  RestartableDataLoader at_the_end(sized({4, 4, 3}), once);
  take(at_the_end, 3);
  CHECK_FALSE(at_the_end.next());
  // Without states nothing depends on it.
  RestartableDataLoader without_states(sized({4, 3, 4}), with_workers(0));
  take(without_states, 9);
}

TEST_CASE("CER-19 a finite object is begun again, and one that gives nothing is an error",
          "[protocols][cer][fork]") {
  const int workers = GENERATE(0, 1);
  RestartableDataLoader loader(counting(1, 2), with_workers(workers));
  CHECK(next_key(loader) == "0:0");
  take(loader, 4);  // over two ends
  CHECK(next_key(loader) == "0:5");
  RestartableDataLoader empty(sized({}), with_workers(workers));
  CHECK_THAT(error_of([&] { empty.next(); }, ErrorCode::kCorruptData),
             Contains("epoch 0") && Contains("not one batch"));
  RestartableOptions once = with_workers(workers);
  once.run.repeat = false;
  RestartableDataLoader finite(counting(1, 2), once);
  take(finite, 2);
  CHECK_FALSE(finite.next());
  CHECK(next_key(finite) == "0:2");
}

namespace {

// A user's own idea of what a state is.
class Diary {
 public:
  explicit Diary(const WorkerIdentity& worker) : worker_(worker) {}
  std::optional<Sample> next() {
    lines_.push_back("batch " + std::to_string(lines_.size()));
    return keys_batch(1, lines_.back());
  }
  StateDict state_dict() const { return lines_; }
  void load_state_dict(const StateDict& state) { lines_ = state.get<std::vector<std::string>>(); }
  StateDict aggregate_state_dict(std::span<const StateDict> states) const {
    std::string text;
    for (const StateDict& state : states) {
      text += state.dump() + "\n";
    }
    return text;
  }
  StateDict deaggregate_state_dict(const StateDict& state) const {
    std::string text = state.get<std::string>();
    for (int i = 0; i < worker_.global_worker_id(); ++i) {
      text.erase(0, text.find('\n') + 1);
    }
    return StateDict::parse(text.substr(0, text.find('\n')));
  }

 private:
  WorkerIdentity worker_;
  std::vector<std::string> lines_;
};

}  // namespace

TEST_CASE("CER-21 users say what a state is and how states are merged", "[protocols][cer][fork]") {
  const auto input = [](const PipelineContext& context) { return Diary(worker_identity(context)); };
  RestartableDataLoader loader(input, with_workers(2, CheckpointSchedule({3})));
  take(loader, 3);
  const StateDict state = loader.state_dict();
  CHECK(state == "[\"batch 0\",\"batch 1\"]\n[\"batch 0\"]\n");
  RestartableDataLoader resumed(input, with_workers(2));
  resumed.load_state_dict(state);
  CHECK(next_key(resumed) == "batch 2");
  CHECK(next_key(resumed) == "batch 1");
}

TEST_CASE("CER-22 steps that fall on one batch of a worker are kept apart",
          "[protocols][cer][fork]") {
  RestartableDataLoader loader(counting(2), with_workers(3, CheckpointSchedule({9, 10, 11})));
  take(loader, 12);
  const std::vector<std::vector<std::int64_t>> expected = {{3, 3, 3}, {4, 3, 3}, {4, 4, 3}};
  for (std::int64_t step = 9; step <= 11; ++step) {
    const auto checkpoints = loader.checkpoints(step);
    REQUIRE(checkpoints);
    for (std::size_t worker = 0; worker < 3; ++worker) {
      const DataLoaderCheckpoint& checkpoint = (*checkpoints)[worker];
      CHECK(checkpoint.progress.step == step);
      CHECK(checkpoint.progress.worker_step ==
            expected[static_cast<std::size_t>(step - 9)][worker]);
      CHECK(checkpoint.user_state_dict.at("next") == checkpoint.progress.worker_step);
    }
  }
}

}  // namespace energon::testing
