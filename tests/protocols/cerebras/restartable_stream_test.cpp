// Acceptance tests of the iterable restartable object, which runs pipelines (CER-10, CER-11), and
// of the loader's own state through the protocol.

#include "protocols/cerebras/restartable_stream.h"

#include <signal.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "protocols/cerebras/restartable_data_loader.h"
#include "protocols/cerebras/restartable_rank.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::testing {
namespace {

using Catch::Contains;

PipelineFactory numbers(std::int64_t count, std::int64_t batch_size,
                        std::int64_t shuffle_buffer = 0, const std::string& name = "") {
  TrainOptions options;
  options.batch_size = batch_size;
  if (shuffle_buffer > 0) {
    options.shuffle_buffer_size = shuffle_buffer;
  }
  return train_pipeline(std::shared_ptr<const MemoryLeaf>(std::make_shared<MemoryLeaf>(
                            name, std::vector<std::int64_t>{count / 2, count - count / 2})),
                        options);
}

RestartableDataLoader stream_loader(const PipelineFactory& pipeline, int workers,
                                    OtherWorkers other_workers = OtherWorkers::kRefuse) {
  return RestartableDataLoader(
      [=](const PipelineContext& context) {
        return RestartableStream(context, pipeline, other_workers);
      },
      {.loader = {.worker_config = {.num_workers = workers}},
       .run = {.schedule = CheckpointSchedule::every(1)}});
}

template <class Loader>
std::vector<std::string> take_keys(Loader& loader, int batches) {
  std::vector<std::string> taken;
  for (int i = 0; i < batches; ++i) {
    const auto batch = loader.next();
    taken.push_back(batch ? fmt::format("{}", fmt::join(batch->keys, " ")) : "end");
  }
  return taken;
}

// The shards with which the workers of a job continue.
std::vector<int> rotation(const StateDict& state, int workers, const PipelineFactory& pipeline) {
  HeapBufferPool memory;
  std::vector<int> shards;
  for (int worker = 0; worker < workers; ++worker) {
    const RestartableStream part(
        {.config = {.num_workers = workers}, .local_index = worker, .memory = memory}, pipeline);
    shards.push_back(part.deaggregate_state_dict(state, Strictness::kStrict).at("shard_index"));
  }
  return shards;
}

}  // namespace

TEST_CASE("CER-10 a new run continues with the next shard in turn", "[protocols][cer][fork]") {
  const PipelineFactory pipeline = numbers(600, 4, GENERATE(0, 50));
  RestartableDataLoader undisturbed = stream_loader(pipeline, 3);
  const std::vector<std::string> expected = take_keys(undisturbed, 40);
  RestartableDataLoader first = stream_loader(pipeline, 3);
  std::vector<std::string> seen = take_keys(first, 10);
  const StateDict state = first.state_dict();
  std::vector<std::int64_t> samples;
  for (const StateDict& shard : state.at("all_worker_states")) {
    samples.push_back(shard.at("samples_streamed"));
  }
  CHECK(samples == std::vector<std::int64_t>{16, 12, 12});
  CHECK(rotation(state, 3, pipeline) == std::vector<int>{1, 2, 0});
  RestartableDataLoader second = stream_loader(pipeline, 3);
  second.load_state_dict(state);
  const std::vector<std::string> rest = take_keys(second, 30);
  seen.insert(seen.end(), rest.begin(), rest.end());
  CHECK(seen == expected);
}

TEST_CASE("CER-10 shards are rotated to the first one with the fewest samples",
          "[protocols][cer]") {
  const PipelineFactory pipeline = numbers(64, 4);
  HeapBufferPool memory;
  const auto rotation_of = [&](const std::vector<std::int64_t>& samples) {
    const int workers = static_cast<int>(samples.size());
    std::vector<StateDict> states;
    for (int worker = 0; worker < workers; ++worker) {
      states.push_back(
          RestartableStream(
              {.config = {.num_workers = workers}, .local_index = worker, .memory = memory},
              pipeline)
              .state_dict());
      states.back()["samples_streamed"] = samples[static_cast<std::size_t>(worker)];
    }
    std::swap(states.front(), states.back());  // any order
    const RestartableStream any({.config = {.num_workers = workers}, .memory = memory}, pipeline);
    return rotation(any.aggregate_state_dict(states), workers, pipeline);
  };
  CHECK(rotation_of({16, 12, 12}) == std::vector<int>{1, 2, 0});
  CHECK(rotation_of({16, 16, 12}) == std::vector<int>{2, 0, 1});
  CHECK(rotation_of({8, 4, 8, 4}) == std::vector<int>{1, 2, 3, 0});
  CHECK(rotation_of({4, 4}) == std::vector<int>{0, 1});
}

TEST_CASE("CER-11 another number of workers is refused with both numbers, or starts over",
          "[protocols][cer][fork]") {
  const PipelineFactory pipeline = numbers(600, 4);
  RestartableDataLoader three = stream_loader(pipeline, 3);
  take_keys(three, 6);
  const StateDict state = three.state_dict();
  RestartableDataLoader two = stream_loader(pipeline, 2);
  for (const Strictness strictness : {Strictness::kStrict, Strictness::kLenient}) {
    CAPTURE(strictness);
    CHECK_THAT(error_of([&] { two.load_state_dict(state, strictness); }, ErrorCode::kMismatch),
               Contains("has 3 workers, but this job has 2"));
  }
  const std::vector<std::string> start = take_keys(two, 6);
  RestartableDataLoader reset = stream_loader(pipeline, 2, OtherWorkers::kReset);
  reset.load_state_dict(state);
  CHECK(reset.warnings().size() == 1);
  CHECK(take_keys(reset, 6) == start);
}

TEST_CASE("A stream refuses invalid states and states of other data", "[protocols][cer]") {
  RestartableDataLoader loader = stream_loader(numbers(600, 4), 0);
  take_keys(loader, 3);
  const StateDict state = loader.state_dict();
  RestartableDataLoader other = stream_loader(numbers(602, 4), 0);
  CHECK_THAT(error_of([&] { other.load_state_dict(state); }, ErrorCode::kMismatch),
             Contains("shard_counts"));
  const auto refused = [&](const StateDict& changed) {
    RestartableDataLoader fresh = stream_loader(numbers(600, 4), 0);
    return error_of([&] { fresh.load_state_dict(changed); }, ErrorCode::kMismatch);
  };
  StateDict changed = state;
  changed["note"] = 1;
  changed.erase("dataset");
  CHECK_THAT(refused(changed), Contains("dataset: not in the state") && Contains("note: in"));
  changed = state;
  changed["__version__"] = 2;
  CHECK_THAT(refused(changed), Contains("version 2"));
  changed = state;
  changed["all_worker_states"][0]["shard_index"] = 5;
  CHECK_THAT(refused(changed), Contains("shard_index 5"));
  CHECK_THAT(refused("text"), Contains("an object"));
}

namespace {

std::shared_ptr<SavableDataLoader> rank_loader(const PipelineFactory& pipeline, int rank,
                                               int world_size, std::optional<int> shards,
                                               int workers = 0) {
  return std::make_shared<SavableDataLoader>(
      pipeline, LoaderOptions{.worker_config = {.rank = rank,
                                                .world_size = world_size,
                                                .num_workers = workers,
                                                .logical_shards = shards},
                              .checkpoint_slot_bytes = 1 << 16,
                              .arena_limit_bytes = std::uint64_t{1} << 20});
}

bool is_dead(int pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string number;
  std::string name;
  std::string state;
  return !(stat >> number >> name >> state) || state == "Z";
}

// Everything that this process shares with workers becomes zero. Requires: small arenas.
void write_over_shared_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:energon") != std::string::npos &&
        line.find(" rw-s ") != std::string::npos) {
      std::size_t after = 0;
      const std::uint64_t begin = std::stoull(line, &after, 16);
      const std::uint64_t end = std::stoull(line.substr(after + 1), nullptr, 16);
      REQUIRE(end - begin < std::uint64_t{64} << 20);
      std::memset(reinterpret_cast<void*>(begin), 0, end - begin);
    }
  }
}

}  // namespace

TEST_CASE("The loader's own state works with the protocol, on any layout",
          "[protocols][cer][rescale]") {
  STATIC_REQUIRE(Restartable<RestartableRank>);
  const PipelineFactory pipeline = numbers(600, 4, 30);
  RestartableRank undisturbed(rank_loader(pipeline, 0, 1, 12));
  const std::vector<std::string> expected = take_keys(undisturbed, 48);

  std::vector<RestartableRank> two;
  for (int rank = 0; rank < 2; ++rank) {
    two.emplace_back(rank_loader(pipeline, rank, 2, 12));
  }
  std::vector<std::string> seen;
  for (int step = 0; step < 12; ++step) {
    for (RestartableRank& rank : two) {
      seen.push_back(take_keys(rank, 1).front());
    }
  }
  // In any order, as strings.
  const StateDict job = StateDict::parse(
      two[0].aggregate_state_dict(std::vector{two[1].state_dict(), two[0].state_dict()}).dump());
  std::vector<RestartableRank> three;
  for (int rank = 0; rank < 3; ++rank) {
    three.emplace_back(rank_loader(pipeline, rank, 3, 12));
    three.back().load_state_dict(three.back().deaggregate_state_dict(job, Strictness::kStrict),
                                 Strictness::kStrict);
  }
  for (int step = 0; step < 8; ++step) {
    for (RestartableRank& rank : three) {
      seen.push_back(take_keys(rank, 1).front());
    }
  }
  CHECK(seen == expected);

  CHECK_THAT(error_of([&] { two[0].aggregate_state_dict(std::vector{two[1].state_dict()}); },
                      ErrorCode::kMismatch),
             Contains("missing"));
  CHECK_THAT(error_of([&] { two[0].deaggregate_state_dict("x", Strictness::kStrict); },
                      ErrorCode::kMismatch),
             Contains("ranks"));
}

TEST_CASE("An overwritten position is lost, but a state can still be taken", "[protocols][fork]") {
  const auto strictness = GENERATE(Strictness::kStrict, Strictness::kLenient);
  const auto loader = rank_loader(numbers(600, 4), 0, 1, 4, 2);
  RestartableRank rank(loader);
  take_keys(rank, 5);
  const StateDict state = rank.state_dict();
  const std::vector<std::string> expected = take_keys(rank, 5);
  const StateDict job = rank.aggregate_state_dict(std::vector{rank.state_dict()});
  for (const int pid : loader->worker_pids()) {
    CAPTURE(pid);
    REQUIRE(::kill(pid, SIGKILL) == 0);
    REQUIRE(eventually([pid] { return is_dead(pid); }));
  }
  write_over_shared_memory();
  CHECK_THAT(error_of([&] { loader->stop(); }, ErrorCode::kCorruptData), Contains("wrote over it"));
  CHECK_THAT(error_of([&] { rank.state_dict(); }, ErrorCode::kCorruptData),
             Contains("wrote over it"));
  CHECK_NOTHROW(rank.deaggregate_state_dict(job, strictness));
  rank.load_state_dict(state, strictness);
  CHECK(take_keys(rank, 5) == expected);
}

TEST_CASE("A part of a stream is refused with other data, also without the state of its job",
          "[protocols]") {
  HeapBufferPool memory;
  const auto stream = [&](const PipelineFactory& pipeline, int worker = 0) {
    return RestartableStream(
        {.config = {.num_workers = 2}, .local_index = worker, .memory = memory}, pipeline);
  };
  const PipelineFactory pipeline = numbers(600, 4);
  RestartableStream saved = stream(pipeline, 1);
  take_keys(saved, 3);
  const StateDict part = saved.state_dict();
  RestartableStream same = stream(pipeline);
  same.load_state_dict(part, Strictness::kStrict);
  CHECK(take_keys(same, 3) == take_keys(saved, 3));
  // Other names or another index of the same shards.
  RestartableStream renamed = stream(numbers(600, 4, 0, "r"));
  CHECK_THAT(
      error_of([&] { renamed.load_state_dict(part, Strictness::kStrict); }, ErrorCode::kMismatch),
      Contains("dataset.config: "));
  renamed.load_state_dict(part, Strictness::kLenient);
  CHECK_THAT(error_of(
                 [&] {
                   renamed.aggregate_state_dict(std::vector{part, part});
                 },
                 ErrorCode::kMismatch),
             Contains("shard 1: 2 states"));
  StateDict first = part;
  first["shard_index"] = 0;
  CHECK_THAT(error_of(
                 [&] {
                   renamed.aggregate_state_dict(std::vector{part, first});
                 },
                 ErrorCode::kMismatch),
             Contains("shard 0: dataset.config: ") && Contains("shard 1: dataset.config: "));
  // The parts of the state of a job do not contain this.
  StateDict old = part;
  old.erase("dataset");
  stream(numbers(600, 4, 0, "r")).load_state_dict(old, Strictness::kStrict);
}

TEST_CASE("X-11 changed data is refused by name, and accepted if not strict",
          "[protocols][cross]") {
  RestartableRank saved(rank_loader(numbers(600, 4), 0, 1, 4));
  take_keys(saved, 5);
  const StateDict state = saved.state_dict();
  RestartableRank changed(rank_loader(numbers(640, 4), 0, 1, 4));
  CHECK_THAT(
      error_of([&] { changed.load_state_dict(state, Strictness::kStrict); }, ErrorCode::kMismatch),
      Contains("shard_counts[0]: 300, expected 320"));
  // Data that does not fit is always refused; data with other names is not.
  CHECK_THAT(
      error_of([&] { changed.load_state_dict(state, Strictness::kLenient); }, ErrorCode::kMismatch),
      Contains("open slice 0"));
  RestartableRank renamed(rank_loader(numbers(600, 4, 0, "r"), 0, 1, 4));
  CHECK_THAT(
      error_of([&] { renamed.load_state_dict(state, Strictness::kStrict); }, ErrorCode::kMismatch),
      Contains("name: \"\", expected \"r\""));
  renamed.load_state_dict(state, Strictness::kLenient);
  std::string expected = take_keys(saved, 1).front();
  for (std::size_t i = 0; i != std::string::npos; i = expected.find(' ', i + 1)) {
    expected.insert(i == 0 ? 0 : ++i, "r");
  }
  CHECK(take_keys(renamed, 1).front() == expected);
}

}  // namespace energon::testing
