// Short-lived loaders and workers: their replays and counts, and deaths that lose nothing.

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/energon/loader/every_stage.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/error_of.h"

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
using energon::testing::eventually;
using energon::testing::kEpochEnd;
using energon::testing::kFx55;
using energon::testing::Labels;
using energon::testing::LoaderFixture;
using energon::testing::numbers;
using energon::testing::ProcessCounts;
using energon::testing::tail;
using energon::testing::take;

// A number that all processes share.
class SharedCount {
 public:
  SharedCount()
      : count_(*static_cast<std::atomic<int>*>(::mmap(nullptr, sizeof(std::atomic<int>),
                                                      PROT_READ | PROT_WRITE,
                                                      MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedCount() { ::munmap(&count_, sizeof(count_)); }
  SharedCount(const SharedCount&) = delete;
  SharedCount& operator=(const SharedCount&) = delete;

  std::atomic<int>& operator*() const { return count_; }

 private:
  std::atomic<int>& count_;
};

std::unique_ptr<SavableDataLoader> loader_over(const PipelineFactory& pipeline, int workers,
                                               LoaderOptions options) {
  options.worker_config.num_workers = workers;
  return std::make_unique<SavableDataLoader>(pipeline, options);
}

std::int64_t longest_offset(const SavableDataLoaderState& state) {
  std::int64_t longest = 0;
  for (const auto& stream : state.checkpoints) {
    longest = std::max(longest, stream.offset);
  }
  return longest;
}

// Groups, whose functions a replay calls again, like those of an earlier stage.
TrainOptions grouped(const energon::MapFunction& encode) {
  return {.task_encoder = {.encode_sample = encode,
                           .batch_group_criterion =
                               [](const Sample& sample) {
                                 return energon::BatchGroup{
                                     .group = sample.keys.front().back() % 2 == 0 ? "even" : "odd"};
                               }},
          .batch_size = 2,
          .shuffle_buffer_size = 7};
}

const std::vector<std::optional<std::int64_t>> kLifeIntervals = {std::nullopt, {0}, {5}};

}  // namespace

TEST_CASE("many short runs deliver the stream, and none replays more than one interval",
          "[loader][lives][fork]") {
  constexpr std::size_t kLife = 10;
  const energon::testing::TempDir folder;
  const PipelineFactory pipeline =
      energon::testing::every_stage(energon::testing::numbered_dataset(folder, kFx55));
  for (const int workers : {0, 1, 2}) {
    for (const auto& interval : kLifeIntervals) {
      CAPTURE(workers, interval.value_or(-1));
      const LoaderOptions options{.worker_config = {.logical_shards = workers == 2 ? 3 : 1},
                                  .checkpoint_every_batches = interval};
      const Labels expected = take(*loader_over(pipeline, workers, options), 20 * kLife);
      SavableDataLoaderState state = loader_over(pipeline, workers, options)->save_state_rank();
      for (std::size_t life = 0; life < 20; ++life) {
        CAPTURE(life);
        const auto loader = loader_over(pipeline, workers, options);
        loader->restore_state_rank(state);
        REQUIRE(take(*loader, kLife) == tail(expected, life * kLife, kLife));
        state = loader->save_state_rank();
        // Without an interval, one life of the worker.
        CHECK(longest_offset(state) <= static_cast<std::int64_t>(kLife));
      }
    }
  }
}

TEST_CASE("the last of many short runs calls as many functions as the second",
          "[loader][lives][fork]") {
  const SharedCount calls;
  const LoaderFixture fixture(grouped([&calls](Sample sample, CallContext&) {
    ++*calls;
    return sample;
  }));
  for (const auto& interval : kLifeIntervals) {
    CAPTURE(interval.value_or(-1));
    const LoaderOptions options{.prefetch_factor = 1, .checkpoint_every_batches = interval};
    std::vector<int> in_life;
    SavableDataLoaderState state = fixture.loader(1, options)->save_state_rank();
    for (int life = 0; life < 61; ++life) {
      *calls = 0;
      const auto loader = energon::testing::resumed(fixture, 1, state, options);
      take(*loader, 10);
      state = loader->save_state_rank();
      loader->stop();
      in_life.push_back(*calls);
    }
    // A replay is shorter than a life or an interval; one or two batches are made ahead.
    CAPTURE(in_life);
    CHECK(*std::max_element(in_life.begin(), in_life.end()) <= 4 * 10 * 2);
  }
}

TEST_CASE("without workers, runs that end in a failure replay at most one run", "[loader][lives]") {
  const energon::testing::TempDir folder;
  int calls = 0;
  const LoaderFixture fixture(grouped([&](Sample sample, CallContext&) {
    ++calls;
    if (std::filesystem::exists(folder.file("broken"))) {
      throw std::runtime_error("broken");
    }
    return sample;
  }));
  for (const auto& interval : kLifeIntervals) {
    CAPTURE(interval.value_or(-1));
    const LoaderOptions options{.checkpoint_every_batches = interval};
    const Labels expected = take(*fixture.loader(0, options), 30 * 10);
    SavableDataLoaderState state = fixture.loader(0, options)->save_state_rank();
    for (std::size_t life = 0; life < 30; ++life) {
      CAPTURE(life);
      calls = 0;
      const auto loader = energon::testing::resumed(fixture, 0, state, options);
      REQUIRE(take(*loader, 10) == tail(expected, life * 10, 10));
      folder.write("broken", "");
      CHECK_THROWS_AS(loader->next(), Error);
      std::filesystem::remove(folder.file("broken"));
      state = loader->save_state_rank();
      CHECK(longest_offset(state) <= 10);
      CHECK(calls <= 4 * 10 * 2);
    }
  }
}

TEST_CASE("runs that end anywhere around the end of an epoch deliver the stream",
          "[loader][lives][fork]") {
  TrainOptions options = grouped([](Sample sample, CallContext&) { return sample; });
  options.repeat = false;
  const LoaderFixture fixture(options);
  for (const auto& interval : kLifeIntervals) {
    const LoaderOptions with{.worker_config = {.logical_shards = 5},
                             .checkpoint_every_batches = interval};
    const Labels expected = take(*fixture.loader(2, with), 150);
    for (const std::size_t life : {1, 3, 7}) {
      CAPTURE(interval.value_or(-1), life);
      SavableDataLoaderState state = fixture.loader(2, with)->save_state_rank();
      for (std::size_t taken = 0; taken + life <= 100; taken += life) {
        CAPTURE(taken);
        const auto loader = energon::testing::resumed(fixture, 2, state, with);
        REQUIRE(take(*loader, life) == tail(expected, taken, life));
        state = loader->save_state_rank();
      }
    }
  }
}

TEST_CASE("failures before an unfinished batch count once, when the batch is finished",
          "[loader][lives][drops][fork]") {
  const energon::testing::TempDir folder;
  // More fail in a row than a worker keeps until the end of the batch.
  const auto encode = [&folder](Sample sample, CallContext&) {
    const std::int64_t number = numbers(sample).front();
    if (number >= 10 && number < 700) {
      throw std::runtime_error("bad sample");
    }
    if (number == 700 && !std::filesystem::exists(folder.file("happened"))) {
      folder.write("happened", "");
      ::raise(SIGKILL);
    }
    return sample;
  };
  const energon::testing::TempDir data;
  const std::string quarantine = folder.file("quarantine.jsonl");
  SavableDataLoader loader(
      energon::val_pipeline(
          {energon::testing::numbered_dataset(data, {1000})},
          {.task_encoder = {.encode_sample = energon::MapFunction(encode)},
           .batch_size = 2,
           .errors = {.standard = {.action = energon::FailureAction::kSkip, .tolerance = 0}}}),
      {.worker_config = {.num_workers = 1}, .quarantine_file = quarantine});
  take(loader, 5);
  CHECK_THROWS_WITH(loader.next(), Catch::Contains("SIGKILL"));
  CHECK(loader.stats().failures.empty());
  CHECK(loader.stats().newest_reports.empty());
  loader.restore_state_rank(loader.save_state_rank());
  CHECK(numbers(*loader.next()) == std::vector<std::int64_t>{700, 701});
  const energon::LoaderStatistics stats = loader.stats();
  REQUIRE(stats.failures.size() == 1);
  CHECK(stats.failures[0].samples == 690);
  REQUIRE(stats.newest_reports.size() == 690);
  CHECK(stats.newest_reports.front().samples.front().key == "000010");
  CHECK(stats.newest_reports.back().samples.front().key == "000699");
  std::ifstream lines(quarantine);
  CHECK(std::count(std::istreambuf_iterator<char>(lines), {}, '\n') == 690);
}

namespace {

void kill_worker(const SavableDataLoader& loader, std::size_t worker) {
  const int pid = loader.worker_pids().at(worker);
  REQUIRE(::kill(pid, SIGKILL) == 0);
  REQUIRE(eventually([&] { return ::kill(pid, 0) != 0; }));
}

std::uint64_t deaths(const SavableDataLoader& loader) {
  std::uint64_t sum = 0;
  for (const auto& worker : loader.stats().workers) {
    sum += worker.deaths;
  }
  return sum;
}

}  // namespace

TEST_CASE("a worker may die after its whole epoch was delivered", "[loader][lives][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7, .repeat = false});
  const Labels expected = take(*fixture.loader(2), 100);
  const auto end = static_cast<std::size_t>(std::find(expected.begin(), expected.end(), kEpochEnd) -
                                            expected.begin()) +
                   1;
  const auto before = ProcessCounts::now();
  {
    const auto loader = fixture.loader(2);
    REQUIRE(take(*loader, end) == tail(expected, 0, end));
    const SavableDataLoaderState state = loader->save_state_rank();
    SECTION("the next epoch replaces it") {
      kill_worker(*loader, 1);
      CHECK(deaths(*loader) == 0);
      CHECK(take(*loader, 10) == tail(expected, end, 10));
      CHECK(deaths(*loader) == 1);
      CHECK(loader->stats().workers[1].deaths == 1);
      CHECK(take(*loader, 30) == tail(expected, end + 10, 30));
    }
    SECTION("the next epoch replaces all of them") {
      kill_worker(*loader, 0);
      kill_worker(*loader, 1);
      CHECK(take(*loader, 40) == tail(expected, end, 40));
      CHECK(deaths(*loader) == 2);
    }
    SECTION("also if it dies as the next epoch is started") {
      const int pid = loader->worker_pids().at(1);
      REQUIRE(::kill(pid, SIGSTOP) == 0);
      std::jthread killer([pid] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        ::kill(pid, SIGKILL);
      });
      CHECK(take(*loader, 40) == tail(expected, end, 40));
      CHECK(deaths(*loader) == 1);
    }
    SECTION("stop ends the others") {
      kill_worker(*loader, 0);
      CHECK_NOTHROW(loader->stop());
      CHECK(deaths(*loader) == 1);
      CHECK(loader->save_state_rank() == state);
      CHECK(take(*loader, 10) == tail(expected, end, 10));
    }
    SECTION("close, too") {
      kill_worker(*loader, 0);
      CHECK_NOTHROW(loader->close());
      CHECK(deaths(*loader) == 1);
      CHECK(loader->save_state_rank() == state);
    }
  }
  CHECK(ProcessCounts::settled(before) == before);
}

TEST_CASE("a worker that dies before its whole epoch was delivered is an error of stop",
          "[loader][lives][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .repeat = false});
  const auto loader = fixture.loader(2);
  take(*loader, 3);
  kill_worker(*loader, 0);
  CHECK_THAT(energon::testing::error_of([&] { loader->stop(); }, ErrorCode::kWorkerDied),
             Catch::Contains("worker 0"));
  CHECK(deaths(*loader) == 1);
}

TEST_CASE("a worker may die as soon as its own part of the epoch was delivered",
          "[loader][lives][fork]") {
  // Worker 1 has samples 28 to 54, of which it can use six.
  const energon::testing::TempDir folder;
  const PipelineFactory pipeline = energon::val_pipeline(
      {energon::testing::numbered_dataset(folder, kFx55)},
      {.task_encoder = {.encode_sample = energon::MapFunction([](Sample sample, CallContext&) {
                          if (numbers(sample).front() >= 34) {
                            throw energon::SkipSample();
                          }
                          return sample;
                        })},
       .batch_size = 2});
  const Labels expected = take(*loader_over(pipeline, 2, {}), 30);
  const auto loader = loader_over(pipeline, 2, {});
  const std::size_t until_its_end = 3 + 3 + 2;
  REQUIRE(take(*loader, until_its_end) == tail(expected, 0, until_its_end));
  kill_worker(*loader, 1);
  CHECK(take(*loader, 30 - until_its_end) == tail(expected, until_its_end, 30 - until_its_end));
  CHECK(deaths(*loader) == 1);
}
