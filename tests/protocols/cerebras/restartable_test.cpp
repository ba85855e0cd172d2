// Acceptance tests of the restartable protocol: CER-01, CER-02, CER-16 … CER-19, CER-21. The tests
// of its checkpoints are in restartable_checkpoints_test.cpp, those of its map-style and its
// iterable implementations in restartable_map_test.cpp and restartable_stream_test.cpp.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "protocols/cerebras/restartable_data_loader.h"
#include "tests/protocols/cerebras/counting_loader.h"
#include "tests/support/error_of.h"

namespace energon::testing {
namespace {

using Catch::Contains;

// An object without states.
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

// Yields batches of the given sizes, then the end.
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

// Saves and merges states in its own form.
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

TEST_CASE("CER-01 an object with all four functions is restartable, others are run without states",
          "[protocols][cer]") {
  STATIC_REQUIRE(Restartable<CountingWorker>);
  STATIC_REQUIRE_FALSE(Restartable<ThreeOfFour>);
  STATIC_REQUIRE_FALSE(Restartable<Plain>);
  CHECK(RestartableDataLoader(counting(1)).restartable());
  RestartableDataLoader three(make<ThreeOfFour>);
  RestartableDataLoader plain(make<Plain>);
  for (RestartableDataLoader* loader : {&three, &plain}) {
    CAPTURE(loader == &three);
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
  // It is not accepted as an object without states, either: such an input does not compile.
  STATIC_REQUIRE_FALSE(
      std::is_constructible_v<RestartableDataLoader, Input<StrictLoadOnly>, RestartableOptions>);
  STATIC_REQUIRE(std::is_constructible_v<RestartableDataLoader, Input<Plain>, RestartableOptions>);
  STATIC_REQUIRE(Restartable<WithoutStrictness>);
  RestartableDataLoader loader(make<WithoutStrictness>);
  CHECK_NOTHROW(loader.load_state_dict(StateDict::object(), Strictness::kLenient));
}

TEST_CASE("CER-16 a state is loaded before the first batch, and shares nothing with its source",
          "[protocols][cer]") {
  RestartableDataLoader loader(counting(1), with_workers(0, CheckpointSchedule::every(1)));
  CHECK(next_key(loader) == "0:0");
  StateDict state = loader.state_dict();
  CHECK_THAT(error_of([&] { loader.load_state_dict(state); }, ErrorCode::kInvalidArgument),
             Contains("only before the first batch; 1 were taken"));
  const StateDict expected = state;
  state["all"] = "changed";
  CHECK(loader.state_dict() == expected);
  CHECK(next_key(loader) == "0:1");
}

TEST_CASE("CER-17 the loaded state is the state until a batch is taken", "[protocols][cer][fork]") {
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
    // The first batch of the rank came from worker 0, so worker 1 has made none.
    CHECK(loader.state_dict().at("all").at(1).at("next") == 41);
    CHECK(next_key(loader) == "1:41");
  }
}

TEST_CASE("CER-18 if states are saved, only the last batch may be smaller", "[protocols][cer]") {
  RestartableDataLoader loader(sized({4, 3, 4}), with_workers(0, CheckpointSchedule({9})));
  take(loader, 2);
  CHECK_THAT(error_of([&] { loader.next(); }, ErrorCode::kInvalidArgument),
             Contains("batch 1") && Contains("3 samples") && Contains("have 4"));
  RestartableOptions once = with_workers(0, CheckpointSchedule({9}));
  once.run.repeat = false;
  RestartableDataLoader at_the_end(sized({4, 4, 3}), once);
  take(at_the_end, 3);
  CHECK_FALSE(at_the_end.next());
  // Without states, sizes may vary.
  RestartableDataLoader without_states(sized({4, 3, 4}), with_workers(0));
  take(without_states, 9);
}

TEST_CASE("CER-19 a finite object is restarted, and an empty one is an error",
          "[protocols][cer][fork]") {
  const int workers = GENERATE(0, 1);
  RestartableDataLoader loader(counting(1, 2), with_workers(workers));
  CHECK(next_key(loader) == "0:0");
  take(loader, 4);  // passes two ends
  CHECK(next_key(loader) == "0:5");
  RestartableDataLoader empty(sized({}), with_workers(workers));
  CHECK_THAT(error_of([&] { empty.next(); }, ErrorCode::kCorruptData),
             Contains("epoch 0") && Contains("had no batches"));
  RestartableOptions once = with_workers(workers);
  once.run.repeat = false;
  RestartableDataLoader finite(counting(1, 2), once);
  take(finite, 2);
  CHECK_FALSE(finite.next());
  CHECK(next_key(finite) == "0:2");
}

TEST_CASE("CER-21 users define the form of a state and how states are merged",
          "[protocols][cer][fork]") {
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

}  // namespace energon::testing
