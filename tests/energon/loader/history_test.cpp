// Earlier positions: state_at() and rewind(), on any pipeline and layout, whatever happened to the
// workers; and saves from other threads, which have no side effects.

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/certificate.h"
#include "energon/loader/checkpoint_history.h"
#include "energon/loader/rank_loader.h"
#include "io/error.h"
#include "tests/energon/loader/every_stage.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/error_of.h"
#include "tests/support/sanitizer.h"
#include "tests/support/skip.h"

namespace {

using energon::CallContext;
using energon::Error;
using energon::ErrorCode;
using energon::LoaderOptions;
using energon::PipelineFactory;
using energon::Sample;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::TrainOptions;
using energon::testing::error_of;
using energon::testing::kEpochEnd;
using energon::testing::label;
using energon::testing::Labels;
using energon::testing::LoaderFixture;
using energon::testing::resumed;
using energon::testing::tail;
using energon::testing::take;

// The results of a loader, and the state that it saved after each batch.
struct Run {
  Labels labels;
  std::vector<SavableDataLoaderState> states;    // by batches since the first
  std::vector<std::size_t> labels_before = {0};  // results of next() up to that state

  std::int64_t first() const { return states.front().batch_index; }
  std::int64_t batches() const { return states.back().batch_index; }
};

void go_on(SavableDataLoader& loader, Run& run, std::size_t results) {
  for (std::size_t i = 0; i < results; ++i) {
    const auto batch = loader.next();
    run.labels.push_back(batch ? label(*batch) : kEpochEnd);
    if (batch) {
      run.states.push_back(loader.save_state_rank());
      run.labels_before.push_back(run.labels.size());
    }
  }
}

Run run_of(SavableDataLoader& loader, std::size_t results) {
  Run run;
  run.states.push_back(loader.save_state_rank());
  go_on(loader, run, results);
  return run;
}

// The same position, wherever its checkpoints are.
void check_same_position(const SavableDataLoaderState& found,
                         const SavableDataLoaderState& expected) {
  CHECK(found.batch_index == expected.batch_index);
  CHECK(found.epoch == expected.epoch);
  CHECK(found.epoch_finished == expected.epoch_finished);
  CHECK(found.step_in_epoch == expected.step_in_epoch);
  CHECK(found.next_worker_id == expected.next_worker_id);
  CHECK(found.micro_batch_size == expected.micro_batch_size);
  REQUIRE(found.checkpoints.size() == expected.checkpoints.size());
  for (std::size_t i = 0; i < found.checkpoints.size(); ++i) {
    const auto& one = found.checkpoints[i];
    const auto& other = expected.checkpoints[i];
    CHECK(one.logical_shard == other.logical_shard);
    CHECK(one.turn == other.turn);
    CHECK(one.certificate == other.certificate);
    CHECK(one.index + one.offset == other.index + other.offset);
  }
}

// All reachable states equal the saved states.
void check_history(SavableDataLoader& loader, const Run& run) {
  const std::int64_t earliest = loader.earliest_state();
  CHECK(loader.stats().earliest_state == earliest);
  CHECK(loader.stats().batch_index == run.batches());
  for (std::int64_t index = earliest; index <= run.batches(); ++index) {
    CAPTURE(index, earliest);
    check_same_position(loader.state_at(index),
                        run.states[static_cast<std::size_t>(index - run.first())]);
  }
}

Labels after(const Run& run, std::int64_t batch_index) {
  const std::size_t from = run.labels_before[static_cast<std::size_t>(batch_index - run.first())];
  return tail(run.labels, from, run.labels.size() - from);
}

const std::optional<std::int64_t> kNoInterval;

}  // namespace

TEST_CASE("the state at each earlier batch equals the state saved there",
          "[loader][history][fork]") {
  for (const int workers : {0, 1, 3}) {
    for (const auto& interval :
         {kNoInterval, std::optional<std::int64_t>(1), std::optional<std::int64_t>(3)}) {
      CAPTURE(workers, interval.value_or(-1));
      const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7, .repeat = false});
      const LoaderOptions options{.worker_config = {.logical_shards = 4},
                                  .checkpoint_every_batches = interval};
      const auto loader = fixture.loader(workers, options);
      const Run run = run_of(*loader, 80);  // more than two epochs
      REQUIRE(run.batches() > 60);
      CHECK(loader->earliest_state() == 0);
      check_history(*loader, run);
      for (const std::int64_t index : {std::int64_t{0}, std::int64_t{17}, std::int64_t{40}}) {
        const auto other = resumed(fixture, workers, loader->state_at(index), options);
        const Labels expected = after(run, index);
        CHECK(take(*other, expected.size()) == expected);
      }
      CHECK(take(*loader, 5) == tail(take(*fixture.loader(workers, options), 85), 80, 5));
    }
  }
}

TEST_CASE("a state beyond the history is refused with the earliest available one",
          "[loader][history][fork]") {
  for (const int workers : {0, 2}) {
    for (const std::int64_t history : {0, 1, 10}) {
      CAPTURE(workers, history);
      const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7});
      const auto loader =
          fixture.loader(workers, {.checkpoint_every_batches = 1, .checkpoint_history = history});
      const Run run = run_of(*loader, 40);
      CHECK(loader->earliest_state() == 40 - history);
      check_history(*loader, run);
      const auto expected = Catch::Contains(
          fmt::format("the earliest one is after {} batches, of 40 delivered", 40 - history));
      CHECK_THAT(error_of([&] { loader->state_at(39 - history); }, ErrorCode::kInvalidArgument),
                 expected && Catch::Contains("checkpoint_history"));
      CHECK_THAT(error_of([&] { loader->rewind(0); }, ErrorCode::kInvalidArgument), expected);
      CHECK_THAT(error_of([&] { loader->state_at(41); }, ErrorCode::kInvalidArgument),
                 Catch::Contains("cannot go to batch 41: only 40 batches have been delivered"));
      CHECK_THAT(error_of([&] { loader->state_at(-1); }, ErrorCode::kInvalidArgument),
                 Catch::Contains("batch index -1 is negative"));
      CHECK_THROWS_AS(loader->state_at(-1), Error);
      CHECK(take(*loader, 5) == tail(take(*fixture.loader(workers), 45), 40, 5));
    }
  }
}

TEST_CASE("the byte limit of the history bounds its reach", "[loader][history][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 1000}, {2000});
  for (const int workers : {0, 1}) {
    CAPTURE(workers);
    const auto loader = fixture.loader(
        workers,
        {.prefetch_factor = 2, .checkpoint_every_batches = 1, .checkpoint_history_bytes = 20'000});
    const Run run = run_of(*loader, 60);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(300));  // the worker continues until it waits
    const std::int64_t earliest = loader->earliest_state();
    CHECK(earliest > 40);  // a state has about 1,500 bytes
    CHECK(earliest < 58);
    check_history(*loader, run);
    loader->stop();
    CHECK(loader->earliest_state() >= earliest);
    check_history(*loader, run);
    loader->rewind(59);
    CHECK(take(*loader, 1) == after(run, 59));
  }
}

TEST_CASE("a killed worker's states are still found, before and after stop()",
          "[loader][history][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7});
  const LoaderOptions options{.worker_config = {.logical_shards = 5}};
  const auto loader = fixture.loader(2, options);
  Run run = run_of(*loader, 60);
  REQUIRE(::kill(loader->worker_pids()[1], SIGKILL) == 0);
  check_history(*loader, run);
  try {
    while (true) {
      go_on(*loader, run, 1);
    }
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kWorkerDied);
  }
  CHECK(loader->earliest_state() == std::max<std::int64_t>(run.batches() - 100, 0));
  check_history(*loader, run);
  const std::int64_t target = run.batches() - 50;
  loader->rewind(target);
  CHECK(take(*loader, 50) == after(run, target));
  check_history(*loader, run);
  CHECK(loader->earliest_state() <= target);
}

TEST_CASE("a stopped worker does not answer, and its states are read from its memory",
          "[loader][history][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7});
  const auto loader = fixture.loader(2);
  Run run = run_of(*loader, 40);
  const int stopped = loader->worker_pids()[0];
  REQUIRE(::kill(stopped, SIGSTOP) == 0);
  for (const std::int64_t index : {0, 13, 40}) {
    check_same_position(loader->state_at(index), run.states[static_cast<std::size_t>(index)]);
  }
  REQUIRE(::kill(stopped, SIGCONT) == 0);
  go_on(*loader, run, 20);  // its late answers are skipped
  check_history(*loader, run);
}

TEST_CASE("the history survives stop(), close(), rewind() and a restore of the same position",
          "[loader][history][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7, .repeat = false});
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const LoaderOptions options{.worker_config = {.logical_shards = 4}};
    const auto loader = fixture.loader(workers, options);
    Run run = run_of(*loader, 30);
    loader->stop();
    check_history(*loader, run);
    go_on(*loader, run, 20);
    loader->stop();
    loader->restore_state_rank(loader->save_state_rank());
    CHECK(loader->earliest_state() == 0);
    go_on(*loader, run, 20);
    check_history(*loader, run);
    loader->rewind(45);
    loader->rewind(3);
    CHECK(take(*loader, after(run, 3).size()) == after(run, 3));
    check_history(*loader, run);
    loader->close();
    check_history(*loader, run);
    CHECK(error_of([&] { loader->rewind(3); }, ErrorCode::kCancelled) != "");
  }
}

TEST_CASE("a restore of another state begins a new history", "[loader][history][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7});
  for (const int workers : {0, 2}) {
    const auto first = fixture.loader(workers);
    take(*first, 25);
    const auto loader = fixture.loader(workers);
    take(*loader, 50);
    loader->stop();
    loader->restore_state_rank(first->save_state_rank());
    const Run run = run_of(*loader, 30);
    CHECK(loader->earliest_state() == 25);
    check_history(*loader, run);
    CHECK_THAT(error_of([&] { loader->state_at(24); }, ErrorCode::kInvalidArgument),
               Catch::Contains("begins at batch 25, where it was restored"));
    loader->rewind(25);
    CHECK(take(*loader, 30) == run.labels);
  }
}

TEST_CASE("a loader that failed can be rewound", "[loader][history][fork]") {
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const energon::testing::TempDir folder;
    const LoaderFixture fixture(
        {.task_encoder = {.encode_sample =
                              energon::MapFunction([&folder](Sample sample, CallContext&) {
                                if (std::filesystem::exists(folder.file("broken"))) {
                                  throw std::runtime_error("broken");
                                }
                                return sample;
                              })},
         .batch_size = 2});
    const auto loader = fixture.loader(workers, {.prefetch_factor = 2});
    Run run = run_of(*loader, 30);
    folder.write("broken", "");
    try {
      while (true) {
        go_on(*loader, run, 1);
      }
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kUserFunction);
    }
    std::filesystem::remove(folder.file("broken"));
    check_history(*loader, run);
    loader->rewind(12);
    CHECK(take(*loader, after(run, 12).size()) == after(run, 12));
  }
}

TEST_CASE("samples that were left out before an earlier state do not come back",
          "[loader][history][fork]") {
  for (const int workers : {0, 1}) {
    CAPTURE(workers);
    const energon::testing::TempDir folder;
    energon::ValOptions options{.batch_size = 2};
    options.task_encoder.encode_sample =
        energon::MapFunction([&folder](Sample sample, CallContext&) {
          if (energon::testing::numbers(sample).front() % 5 == 3 &&
              !std::filesystem::exists(folder.file("healed"))) {
            throw std::runtime_error("broken");
          }
          return sample;
        });
    options.errors.standard.action = energon::FailureAction::kSkip;
    const LoaderFixture data({});
    const PipelineFactory pipeline = energon::val_pipeline({data.dataset()}, options);
    const LoaderOptions settings{.worker_config = {.num_workers = workers},
                                 .checkpoint_every_batches = 1'000'000};
    SavableDataLoader loader(pipeline, settings);
    std::vector<std::vector<std::int64_t>> batches;
    while (const auto batch = loader.next()) {
      batches.push_back(energon::testing::numbers(*batch));
    }
    REQUIRE(batches.size() > 10);
    folder.write("healed", "");  // now a replay would find more samples
    for (std::size_t index = 1; index < batches.size(); ++index) {
      CAPTURE(index);
      SavableDataLoader other(pipeline, settings);
      other.restore_state_rank(loader.state_at(static_cast<std::int64_t>(index)));
      const auto first = energon::testing::numbers(*other.next()).front();
      CHECK(first > batches[index - 1].back());
      CHECK(first <= batches[index].front());
    }
  }
}

namespace {

// Two logical shards of seven samples each; most samples of the second one are left out, different
// ones in each epoch, so that it often has several epochs in a row without a batch.
class SparseStreams {
 public:
  explicit SparseStreams(std::int64_t seed) : seed_(seed) {}

  std::int64_t history() const { return seed_ % 2 == 0 ? 100 : 10; }

  std::unique_ptr<SavableDataLoader> loader(int workers, std::function<void()> in_call = {}) const {
    energon::ValOptions options{.batch_size = 1};
    options.task_encoder.encode_sample = energon::MapFunction(
        [seed = seed_, in_call = std::move(in_call)](Sample sample, CallContext& context) {
          if (in_call) {
            in_call();
          }
          const std::int64_t number = energon::testing::numbers(sample).front();
          if (number >= 7 && (number * 31 + context.call() * 17 + seed * 7) % 12 != 0) {
            throw std::runtime_error("damaged");
          }
          return sample;
        });
    options.errors.standard = {.action = energon::FailureAction::kSkip, .tolerance = 0};
    return std::make_unique<SavableDataLoader>(
        energon::val_pipeline({data_.dataset()}, options),
        LoaderOptions{.worker_config = {.num_workers = workers, .logical_shards = 2},
                      .checkpoint_history = history()});
  }

 private:
  const LoaderFixture data_{{}, {7, 7}};
  const std::int64_t seed_;
};

}  // namespace

TEST_CASE("the history of a stream without batches is dropped with the epochs",
          "[loader][history]") {
  energon::CheckpointHistory history(1 << 20);
  history.begin(std::vector<energon::SavableDatasetCheckpoint>(1));
  for (std::int64_t epoch = 1; epoch < 100; ++epoch) {
    energon::SavableDatasetCheckpoint checkpoint;
    checkpoint.epoch = epoch;
    history.add(0, checkpoint);
  }
  // For a position in epoch 50, of which no batch was delivered, the later checkpoints stay.
  history.forget_before(0, {.index = 0, .epoch = 50});
  CHECK(history.oldest(0) == energon::CheckpointPlace{.index = 0, .epoch = 50});
  CHECK_FALSE(history.newest(0, {.index = 0, .epoch = 49}));
  CHECK(history.newest(0, {.index = 3, .epoch = 70})->place.epoch == 70);

  // Stream 0 delivers a batch in each epoch, stream 1 none.
  energon::DeliveryLog log(3);
  log.begin({0, 0}, 0);
  energon::EpochPlace place{.turns = energon::Turns(std::vector<energon::Turn>(2), 0)};
  for (int epoch = 0; epoch < 10; ++epoch) {
    CAPTURE(epoch);
    energon::EpochPlace before = place;
    place.turns.take(0);
    const auto forgotten = log.add_batch(0, {}, std::move(before));
    CHECK(forgotten.has_value() == (epoch >= 3));
    CHECK((!forgotten || forgotten->is_place));
    const energon::CheckpointPlace first{.index = 0, .epoch = std::max(epoch - 2, 0)};
    CHECK(log.first(1, place) == first);
    place.turns.end_epoch(0);
    place.turns.end_epoch(1);
    place.turns.start_epoch();
  }
}

TEST_CASE("epochs in which a stream yields nothing hide no earlier state",
          "[loader][history][fork]") {
  for (const int workers : {0, 1, 2}) {
    constexpr std::int64_t kSeeds = ENERGON_ADDRESS_SANITIZER ? 4 : 12;  // forks are slow there
    for (std::int64_t seed = 0; seed < kSeeds; ++seed) {
      CAPTURE(workers, seed);
      const SparseStreams streams(seed);
      const auto loader = streams.loader(workers);
      Run run = run_of(*loader, 20 + 5 * static_cast<std::size_t>(seed));
      for (const bool is_stopped : {false, true}) {
        CAPTURE(is_stopped);
        const std::int64_t first = std::max<std::int64_t>(run.batches() - streams.history(), 0);
        CHECK(loader->earliest_state() == first);
        check_history(*loader, run);
        for (std::int64_t index = first; index <= run.batches(); index += 3) {
          CAPTURE(index);
          const auto other = streams.loader(workers);
          other->restore_state_rank(loader->state_at(index));
          const Labels rest = after(run, index);
          CHECK(take(*other, rest.size()) == rest);
        }
        loader->stop();
      }
      loader->rewind(run.batches());
      run.labels.resize(run.labels_before.back());  // without a repeated end of an epoch
      go_on(*loader, run, 15);
      const std::int64_t earliest = loader->earliest_state();
      loader->rewind(earliest);
      CHECK(take(*loader, after(run, earliest).size()) == after(run, earliest));
    }
  }
}

TEST_CASE("saves during an epoch without deliveries are valid positions", "[loader][history]") {
  for (std::int64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    const SparseStreams streams(seed);
    SavableDataLoader* own = nullptr;
    std::vector<SavableDataLoaderState> saved;
    const auto loader = streams.loader(0, [&] {
      if (own != nullptr) {
        saved.push_back(own->save_state_rank());
      }
    });
    own = loader.get();
    const Run run = run_of(*loader, 60);
    own = nullptr;
    for (std::size_t i = 0; i < saved.size(); i += 5) {
      CAPTURE(i, saved[i].batch_index);
      const auto other = streams.loader(0);
      other->restore_state_rank(saved[i]);
      Labels found = take(*other, 20);
      Labels expected = after(run, saved[i].batch_index);
      std::erase(found, kEpochEnd);  // the end of an epoch may have been reported before the save
      std::erase(expected, kEpochEnd);
      const std::size_t common = std::min(found.size(), expected.size());
      CHECK(tail(found, 0, common) == tail(expected, 0, common));
    }
  }
}

namespace {

// A pipeline, a layout and targets, all drawn from `seed`.
class Draws {
 public:
  explicit Draws(std::uint32_t seed) : random_(seed) {}

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  bool in(int times) { return between(1, times) == 1; }

 private:
  std::mt19937 random_;
};

std::vector<std::vector<std::size_t>> pairs_of(std::span<const Sample> samples) {
  std::vector<std::vector<std::size_t>> packs;
  for (std::size_t i = 0; i < samples.size(); i += 2) {
    packs.push_back(i + 1 < samples.size() ? std::vector<std::size_t>{i + 1, i}
                                           : std::vector<std::size_t>{i});
  }
  return packs;
}

energon::Mapping pack(std::span<Sample> samples, CallContext& context) {
  return {{"samples", static_cast<std::int64_t>(samples.size())},
          {"draw", std::int64_t{context.rng()()}}};
}

energon::SampleStage drawn_stage(Draws& draw) {
  if (draw.in(3)) {
    return energon::FlatMapFunction(
        [](Sample sample, CallContext& context) -> energon::SampleGenerator {
          const auto count = static_cast<int>(context.rng()() % 3);  // also none
          return [sample = std::move(sample), count, given = 0]() mutable -> std::optional<Sample> {
            if (given == count) {
              return std::nullopt;
            }
            Sample copy;
            copy.keys = sample.keys;
            copy.sources = sample.sources;
            copy.fields = {{"copy", std::int64_t{given++}}};
            return copy;
          };
        });
  }
  if (draw.in(2)) {
    return energon::MapFunction([](Sample sample, CallContext& context) {
      sample.fields.emplace_back("draw", std::int64_t{context.rng()()});
      return sample;
    });
  }
  return {};
}

TrainOptions drawn_options(Draws& draw) {
  TrainOptions options;
  options.batch_size = draw.between(1, 4);
  options.shuffle_buffer_size = draw.in(2) ? draw.between(2, 20) : 0;
  options.parallel_slices = draw.between(1, 5);
  options.repeat = draw.in(2);
  options.virtual_epoch_length = draw.in(2) ? draw.between(2, 14) : 0;
  if (draw.in(3)) {
    options.packing_buffer_size = draw.between(2, 7);
    options.task_encoder.preencode_sample = drawn_stage(draw);
    options.task_encoder.select_samples_to_pack = pairs_of;
    options.task_encoder.pack_selected_samples = pack;
  } else {
    options.task_encoder.encode_sample = drawn_stage(draw);
  }
  if (!options.packing_buffer_size && draw.in(3)) {
    options.task_encoder.batch_group_criterion = [](const Sample& sample) {
      const bool is_even = sample.keys.front().back() % 2 == 0;
      return energon::BatchGroup{.group = is_even ? "even" : "odd"};
    };
  }
  return options;
}

PipelineFactory drawn_pipeline(Draws& draw, const LoaderFixture& fixture,
                               const LoaderFixture& other) {
  if (draw.in(6)) {
    return energon::testing::every_stage(fixture.dataset());
  }
  std::vector<std::shared_ptr<const energon::LeafDataset>> leaves = {fixture.dataset()};
  TrainOptions options = drawn_options(draw);
  const bool is_blend = draw.in(3);
  if (is_blend) {
    leaves.push_back(other.dataset());
    options.repeat = true;
    options.blend_by = draw.in(2) ? energon::BlendBy::kShare : energon::BlendBy::kDraw;
  }
  energon::PipelineData data(std::move(leaves));
  if (is_blend) {
    data.mixing = energon::Mixing::kWeighted;
  }
  return energon::train_pipeline(std::move(data), std::move(options));
}

LoaderOptions drawn_layout(Draws& draw, std::uint32_t seed) {
  LoaderOptions options;
  options.worker_config.num_workers = static_cast<int>(seed % 4);
  options.worker_config.seed_offset = draw.between(0, 1000);
  if (draw.in(3)) {
    options.worker_config.logical_shards =
        static_cast<int>(draw.between(std::max(1, options.worker_config.num_workers), 7));
  }
  if (draw.in(2)) {
    options.prefetch_factor = static_cast<int>(draw.between(1, 5));
  }
  if (draw.in(2)) {
    options.checkpoint_every_batches = draw.between(0, 5);
  }
  if (draw.in(4)) {
    options.checkpoint_history = draw.between(0, 30);
  }
  if (draw.in(4)) {
    options.epoch_policy = energon::EpochPolicy::kLoop;
  }
  return options;
}

// Regardless of earlier events, the stream after a rewind equals the delivered stream.
void check_rewinds(const PipelineFactory& pipeline, const LoaderOptions& options, Draws& draw) {
  SavableDataLoader loader(pipeline, options);
  if (draw.in(3)) {
    SavableDataLoader other(pipeline, options);
    take(other, static_cast<std::size_t>(draw.between(0, 40)));
    loader.restore_state_rank(other.save_state_rank());
  }
  Run run = run_of(loader, static_cast<std::size_t>(draw.between(1, 60)));
  if (draw.in(3)) {
    loader.stop();
    go_on(loader, run, static_cast<std::size_t>(draw.between(0, 20)));
  }
  for (int round = 0; round < 2; ++round) {
    const std::int64_t earliest = loader.earliest_state();
    // A rewind does not change the reach.
    CHECK(earliest <= std::max(run.first(), run.batches() - options.checkpoint_history));
    const std::int64_t target = draw.between(earliest, loader.save_state_rank().batch_index);
    CAPTURE(round, earliest, target, run.batches());
    check_same_position(loader.state_at(target),
                        run.states[static_cast<std::size_t>(target - run.first())]);
    loader.rewind(target);
    check_same_position(loader.save_state_rank(),
                        run.states[static_cast<std::size_t>(target - run.first())]);
    const Labels expected = after(run, target);
    REQUIRE(take(loader, expected.size()) == expected);
    if (draw.in(2)) {
      const std::int64_t again =
          draw.between(loader.earliest_state(), loader.save_state_rank().batch_index);
      loader.rewind(again);
      const Labels part = after(run, again);
      const auto count = static_cast<std::size_t>(draw.between(0, std::ssize(part)));
      REQUIRE(take(loader, count) == tail(part, 0, count));
    }
  }
}

}  // namespace

TEST_CASE("300 random pipelines and layouts: a rewind repeats the same batches",
          "[loader][history][property][fork]") {
  constexpr std::uint32_t kJobs = ENERGON_ADDRESS_SANITIZER ? 60 : 300;  // forks are slow there
  const LoaderFixture fixture({}, {7, 30, 18});
  const LoaderFixture other({}, {13});  // to blend with
  for (std::uint32_t seed = 1; seed <= kJobs; ++seed) {
    Draws draw(seed);
    const PipelineFactory pipeline = drawn_pipeline(draw, fixture, other);
    const LoaderOptions options = drawn_layout(draw, seed);
    CAPTURE(seed, options.worker_config.num_workers,
            options.worker_config.logical_shards.value_or(-1),
            options.checkpoint_every_batches.value_or(-1), options.checkpoint_history);
    check_rewinds(pipeline, options, draw);
  }
}

namespace {

// Saves again and again in a thread until it is destroyed.
class Saver {
 public:
  explicit Saver(SavableDataLoader& loader)
      : thread_([this, &loader](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            try {
              save(loader);
            } catch (const Error& error) {
              ++errors;
              last_error = error.what();
            }
            ++saves;
          }
        }) {}

  void end() {
    thread_.request_stop();
    thread_.join();
  }

  std::atomic<int> saves{0};
  int errors = 0;
  std::string last_error;
  std::vector<SavableDataLoaderState> states;

 private:
  void save(SavableDataLoader& loader) {
    const SavableDataLoaderState state = loader.save_state_rank();
    if (states.empty() || states.back().batch_index != state.batch_index) {
      states.push_back(state);
    }
    if (loader.options().checkpoint_history > 0) {  // otherwise a batch may come in between
      loader.state_at(std::max(loader.earliest_state(), state.batch_index - 3));
    }
    loader.stats();
    loader.epoch();
    loader.batches_left();
    loader.worker_pids();
    loader.config();
  }

  std::jthread thread_;
};

// Two threads save while this one takes batches, stops and restores.
void check_saves_beside(int workers) {
  for (const std::int64_t history : {0, 100}) {
    CAPTURE(workers, history);
    TrainOptions options{.batch_size = 2, .shuffle_buffer_size = 7, .repeat = false};
    options.task_encoder.encode_sample = energon::MapFunction([](Sample sample, CallContext&) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      return sample;
    });
    const LoaderFixture fixture(options);
    const LoaderOptions settings{.worker_config = {.logical_shards = 3},
                                 .prefetch_factor = 2,
                                 .checkpoint_history = history};
    const Labels expected = take(*fixture.loader(workers, settings), 260);
    const auto loader = fixture.loader(workers, settings);
    Saver one(*loader);
    Saver other(*loader);
    Labels found;
    for (int round = 0; round < 4; ++round) {
      const Labels more = take(*loader, 60);
      found.insert(found.end(), more.begin(), more.end());
      loader->stop();
      if (round == 2) {
        loader->restore_state_rank(loader->save_state_rank());
      }
    }
    one.end();
    other.end();
    CHECK(found == tail(expected, 0, 240));
    CHECK(take(*loader, 20) == tail(expected, 240, 20));
    for (const Saver* saver : {&one, &other}) {
      CAPTURE(saver->last_error);
      CHECK(saver->errors == 0);
      CHECK(saver->saves > 0);
      REQUIRE(saver->states.size() > 1);
      for (const std::size_t i :
           {std::size_t{0}, saver->states.size() / 2, saver->states.size() - 1}) {
        const SavableDataLoaderState& state = saver->states[i];
        const auto rest = resumed(fixture, workers, state, settings);
        // Results of next() before this state: the batches, and the ends that were reported.
        const auto ends = static_cast<std::size_t>(state.epoch + (state.epoch_finished ? 1 : 0));
        const std::size_t before = static_cast<std::size_t>(state.batch_index) + ends;
        CAPTURE(i, state.batch_index, ends);
        CHECK(take(*rest, 5) == tail(expected, before, 5));
      }
    }
  }
}

}  // namespace

TEST_CASE("saves from other threads end neither themselves nor next(), and are exact",
          "[loader][history][two_threads][fork]") {
  check_saves_beside(1);
  check_saves_beside(3);
}

TEST_CASE("without workers, saves from other threads are exact, too",
          "[loader][history][two_threads]") {
  check_saves_beside(0);
}

TEST_CASE("a function that next() calls may save", "[loader][history][two_threads]") {
  SavableDataLoader* own = nullptr;
  std::vector<std::int64_t> saved;
  TrainOptions options{.batch_size = 2, .shuffle_buffer_size = 5};
  options.task_encoder.encode_sample = energon::MapFunction([&](Sample sample, CallContext&) {
    if (own != nullptr) {
      saved.push_back(own->save_state_rank().batch_index);
      own->state_at(0);
    }
    return sample;
  });
  const LoaderFixture fixture(options);
  const Labels expected = take(*fixture.loader(0), 3);
  SavableDataLoader loader(fixture.pipeline());
  own = &loader;
  CHECK(take(loader, 3) == expected);
  CHECK(saved == std::vector<std::int64_t>{0, 0, 1, 1, 2, 2});
}

// In a child, each call of a loader with workers ends immediately, whatever another thread held at
// the fork.
TEST_CASE("a child forked while another thread saves does not hang",
          "[loader][history][two_threads][fork]") {
  if (ENERGON_ADDRESS_SANITIZER) {
    return energon::testing::skip_case("what the thread holds at the fork is a leak in the child");
  }
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 100});
  const auto loader = fixture.loader(2);
  take(*loader, 5);
  std::atomic<bool> is_over{false};
  std::thread saver([&] {
    while (!is_over) {
      loader->save_state_rank();
    }
  });
  const auto is_refused = [](auto&& call) {
    return error_of(call, ErrorCode::kCancelled).find("fork") != std::string::npos;
  };
  int failed = 0;
  for (int i = 0; i < 60; ++i) {
    const auto child = energon::testing::run_in_child(
        [&] {
          const bool refused =
              is_refused([&] { loader->next(); }) &&
              is_refused([&] { loader->save_state_rank(); }) &&
              is_refused([&] { loader->state_at(3); }) &&
              is_refused([&] { loader->earliest_state(); }) &&
              is_refused([&] { loader->stats(); }) && is_refused([&] { loader->epoch(); }) &&
              is_refused([&] { loader->batches_left(); }) &&
              is_refused([&] { loader->worker_pids(); }) && is_refused([&] { loader->close(); });
          return refused ? 0 : 1;
        },
        std::chrono::seconds(20));
    failed += child.exit_code == 0 ? 0 : 1;
  }
  is_over = true;
  saver.join();
  CHECK(failed == 0);
  CHECK(take(*loader, 1).size() == 1);
}
