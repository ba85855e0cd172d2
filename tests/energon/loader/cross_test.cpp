// Acceptance tests across restartable loaders: IBM-06, X-02, X-04, X-05, X-07,
// X-10, X-11, X-12. X-08 and X-09 are in process_test.cpp.

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include <catch2/catch.hpp>

#include "energon/checkpoint/rescale.h"
#include "io/error.h"
#include "io/file.h"
#include "tests/energon/loader/job.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/batching/pack_selection.h"
#include "wrappers/recipe/open_data.h"

namespace {

using energon::Error;
using energon::LoaderOptions;
using energon::PipelineData;
using energon::PipelineFactory;
using energon::PipelineLeaf;
using energon::SavableDataLoader;
using energon::TrainOptions;
using energon::testing::in_memory;
using energon::testing::Job;
using energon::testing::kFx55;
using energon::testing::LoaderFixture;
using energon::testing::MemoryLeaf;
using energon::testing::take;
using energon::testing::write_prepared;

std::int64_t length_of_sample(std::int64_t index) { return 20 + index % 30; }

// Two datasets by share 3 : 5, shuffled in a buffer of 99, packed to at most 73 units. The buffer
// contains references, so it comes before the packing.
PipelineFactory chain() {
  PipelineData data;
  data.mixing = energon::Mixing::kWeighted;
  for (const double weight : {3.0, 5.0}) {
    PipelineLeaf leaf;
    leaf.dataset =
        std::make_shared<MemoryLeaf>(weight == 3 ? "a" : "b", std::vector<std::int64_t>{50, 50});
    leaf.name = "leaf";
    leaf.length = 100;
    leaf.weight = weight;
    leaf.length_of_sample = length_of_sample;
    data.leaves.push_back(std::move(leaf));
  }
  TrainOptions options;
  options.blend_by = energon::BlendBy::kShare;
  options.shuffle_buffer_size = 99;
  options.packing_buffer_size = 10;
  options.task_encoder.select_samples_to_pack = energon::pack_by_length(
      [](const energon::Sample& sample) {
        return length_of_sample(std::stoll(std::string(sample.keys.front().substr(1))));
      },
      73);
  options.task_encoder.postencode_sample = [](energon::Sample sample,
                                              energon::CallContext& context) {
    sample.fields.emplace_back("draw", std::int64_t{context.rng()()});
    return sample;
  };
  options.task_encoder.pack_selected_samples = [](std::span<energon::Sample> samples,
                                                  energon::CallContext& context) {
    energon::List draws;
    for (const energon::Sample& sample : samples) {
      draws.push_back(sample.at("draw"));
    }
    return energon::Mapping{{"draws", std::move(draws)}, {"draw", std::int64_t{context.rng()()}}};
  };
  return energon::train_pipeline(std::move(data), std::move(options));
}

using Interval = std::optional<std::int64_t>;

// The default of small batches, which uses the first checkpoint for a long time; after each batch;
// after every second batch.
constexpr std::array<Interval, 3> kIntervals = {std::nullopt, 1, 2};

// An interval is tested only if its checkpoints are restored.
void check_checkpoints(const std::vector<energon::SavableDataLoaderState>& ranks, Interval every) {
  for (const auto& rank : ranks) {
    for (const auto& stream : rank.checkpoints) {
      if (every && stream.index + stream.offset >= *every) {
        REQUIRE(stream.offset < *every);
      }
    }
  }
}

TEST_CASE("IBM-06 a chain of stages continues element by element", "[loader][ibm]") {
  const PipelineFactory pipeline = chain();
  const energon::testing::JobSpec spec{
      .world_size = 3, .logical_shards = 15, .shows_contents = true};
  for (const int before : {0, 1, 10, 100, 1000}) {
    CAPTURE(before);
    Job first(pipeline, spec);
    first.steps(before);
    Job second(pipeline, spec);
    second.restore(first.save());
    CHECK(second.steps(500) == first.steps(500));
  }
}

TEST_CASE("IBM-06 also with two workers a rank, from the first checkpoint or a later one",
          "[loader][ibm][fork]") {
  const PipelineFactory pipeline = chain();
  for (const Interval every : kIntervals) {
    for (const int before : {0, 1, 10, 100, 1000}) {
      CAPTURE(before, every.value_or(-1));
      const energon::testing::JobSpec spec{.world_size = 3,
                                           .num_workers = 2,
                                           .logical_shards = 15,
                                           .checkpoint_every_batches = every,
                                           .shows_contents = true};
      Job first(pipeline, spec);
      first.steps(before);
      const energon::SavableJobState state = first.save();
      check_checkpoints(state.ranks, every);
      Job second(pipeline, spec);
      second.restore(state);
      CHECK(second.steps(500) == first.steps(500));
    }
  }
}

TEST_CASE("X-02 taking, saving, killing and restoring five times equals an uninterrupted run",
          "[loader][cross][fork]") {
  TrainOptions options;
  options.batch_size = 2;
  options.shuffle_buffer_size = 7;
  const LoaderFixture fixture(options);
  std::mt19937 random(2);
  for (int chain = 0; chain < 6; ++chain) {
    const Interval every = kIntervals[static_cast<std::size_t>(chain) % kIntervals.size()];
    const LoaderOptions settings{.worker_config = {.num_workers = 2},
                                 .checkpoint_every_batches = every};
    const energon::testing::TempDir folder;
    const std::string state = folder.file("state");
    const std::string log = folder.file("log");
    std::int64_t taken = 0;
    for (int cycle = 0; cycle < 5; ++cycle) {
      const std::size_t count = random() % 30;  // also none
      const std::size_t lost = random() % 5;    // delivered after the save, so repeated
      CAPTURE(chain, cycle, count, lost);
      const auto child = energon::testing::run_in_child([&] {
        SavableDataLoader loader(fixture.pipeline(), settings);
        if (std::filesystem::exists(state)) {
          loader.restore_state_rank(energon::read_loader_state(state));
        }
        std::ofstream lines(log, std::ios::app);
        for (const std::string& line : take(loader, count)) {
          lines << line << '\n';
        }
        lines.flush();
        energon::write_loader_state(state, loader.save_state_rank());
        take(loader, lost);
        return ::raise(SIGKILL);
      });
      CHECK(child.signal == SIGKILL);
      taken += static_cast<std::int64_t>(count);
      CHECK(energon::read_loader_state(state).batch_index == taken);
    }
    check_checkpoints({energon::read_loader_state(state)}, every);
    std::ifstream lines(log);
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);) {
      found.push_back(line);
    }
    SavableDataLoader resumed(fixture.pipeline(), settings);
    resumed.restore_state_rank(energon::read_loader_state(state));
    for (std::string& line : take(resumed, 20)) {
      found.push_back(std::move(line));
    }
    SavableDataLoader uninterrupted(fixture.pipeline(), settings);
    CHECK(found == take(uninterrupted, found.size()));
  }
}

// Bytes of memory that this process and its workers share and have touched.
std::uint64_t shared_bytes() {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    struct stat status {};
    if (std::filesystem::read_symlink(entry.path(), gone).string().find("memfd:energon") !=
            std::string::npos &&
        ::stat(entry.path().c_str(), &status) == 0) {
      bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
  }
  return bytes;
}

TEST_CASE("X-10 the prefetch limit does not affect the batches, and blocked workers stop",
          "[loader][cross][fork]") {
  TrainOptions options;
  options.batch_size = 4;
  const LoaderFixture fixture(options, kFx55, 100'000);  // batches of 400 kB
  constexpr std::size_t kWorkers = 2;
  constexpr std::uint64_t kLimit = std::uint64_t{16} << 20;
  constexpr std::uint64_t kRest = std::uint64_t{2} << 20;  // rings, checkpoints, counters
  std::vector<std::string> expected;
  auto fastest = std::chrono::steady_clock::duration::max();
  for (int prefetch = 1; prefetch <= 8; ++prefetch) {
    CAPTURE(prefetch);
    // Space for the prefetched batches and little more, and slots of sizes that must be shared.
    SavableDataLoader loader(fixture.pipeline(), {.worker_config = {.num_workers = kWorkers},
                                                  .prefetch_factor = prefetch,
                                                  .arena_limit_bytes = kLimit});
    std::vector<std::string> found;
    for (int i = 0; i < 40; ++i) {
      found.push_back(take(loader, 1).front());
      REQUIRE(shared_bytes() <= kWorkers * (kLimit + kRest));
    }
    expected = expected.empty() ? found : expected;
    CHECK(found == expected);
    const auto all_are_blocked = [&] {
      const auto stats = loader.stats();
      return std::all_of(stats.workers.begin(), stats.workers.end(),
                         [&](const auto& worker) { return worker.queue_depth == prefetch; });
    };
    REQUIRE(energon::testing::eventually(all_are_blocked));
    const auto begin = std::chrono::steady_clock::now();
    loader.stop();
    fastest = std::min(fastest, std::chrono::steady_clock::now() - begin);
    CHECK(take(loader, 1).size() == 1);  // and it continues
  }
  // A worker that does not wake is killed after 200 ms. Fastest of eight, as the machine may stall.
  CHECK(fastest < std::chrono::milliseconds(150));
}

TEST_CASE("X-04 from every position of two epochs the rest and the next epoch are the same",
          "[loader][cross][fork]") {
  TrainOptions options;
  options.batch_size = 2;
  options.repeat = false;
  const PipelineFactory pipeline = in_memory({3, 10}, options);
  for (const int workers : {0, 1, 2, 3}) {
    for (const std::optional<int> shards : {std::optional<int>(), std::optional<int>(5)}) {
      for (const Interval every : kIntervals) {
        if (workers == 0 && every) {
          continue;  // the state belongs to the pipeline
        }
        CAPTURE(workers, shards.value_or(0), every.value_or(0));
        const LoaderOptions settings{
            .worker_config = {.num_workers = workers, .logical_shards = shards},
            .checkpoint_every_batches = every};
        SavableDataLoader reference(pipeline, settings);
        std::vector<std::string> expected;  // three epochs with their ends
        std::vector<std::size_t> ends;
        while (ends.size() < 3) {
          expected.push_back(take(reference, 1).front());
          if (expected.back() == energon::testing::kEpochEnd) {
            ends.push_back(expected.size());
          }
        }
        SavableDataLoader walker(pipeline, settings);
        for (std::size_t k = 0; k <= ends[1]; ++k) {
          CAPTURE(k);
          const auto state = walker.save_state_rank();
          check_checkpoints({state}, every);
          SavableDataLoader resumed(pipeline, settings);
          resumed.restore_state_rank(state);
          const std::size_t end = k < ends[0] ? ends[1] : ends[2];  // of the next epoch
          REQUIRE(take(resumed, end - k) == energon::testing::tail(expected, k, end - k));
          take(walker, 1);
        }
      }
    }
  }
}

TEST_CASE("X-05 temporarily slow workers change neither order nor state", "[loader][cross][fork]") {
  const auto pipeline = [](bool is_slow) {
    TrainOptions options;
    options.batch_size = 2;
    options.task_encoder.encode_sample =
        energon::MapFunction([is_slow](energon::Sample sample, energon::CallContext& context) {
          if (is_slow && context.rng()() % 4 == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the delay is the test
          }
          return sample;
        });
    return in_memory({40, 30}, options);
  };
  const LoaderOptions settings{.worker_config = {.num_workers = 3, .logical_shards = 6}};
  SavableDataLoader fast(pipeline(false), settings);
  SavableDataLoader slow(pipeline(true), settings);
  CHECK(take(fast, 60) == take(slow, 60));
  CHECK(certificate_of(fast.save_state_rank()) == certificate_of(slow.save_state_rank()));
}

TEST_CASE("X-07 a state file that is truncated, flipped or too new is refused", "[loader][cross]") {
  TrainOptions options;
  options.batch_size = 2;
  const PipelineFactory pipeline = in_memory({20}, options);
  Job job(pipeline, {.world_size = 2, .logical_shards = 2});
  job.steps(3);
  const energon::testing::TempDir folder;
  const std::string file = folder.file("state");
  SavableDataLoader loader(pipeline);
  take(loader, 2);
  const auto before = loader.save_state_rank();
  const auto refused = [&](const std::string& bytes, const std::string& reason) {
    folder.write("state", bytes);
    try {
      loader.restore_state_rank(energon::read_loader_state(file));
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.find(file) != std::string::npos && text.find(reason) != std::string::npos &&
             error.code() != energon::ErrorCode::kInternal;
    }
    return false;
  };
  energon::write_loader_state(file, before);
  const std::string of_rank = energon::read_file(file);
  for (const std::string& bytes : {of_rank, encode_job_state(job.save())}) {
    for (std::size_t length = 0; length < bytes.size(); length += 1 + length / 50) {
      CAPTURE(length);
      REQUIRE(refused(bytes.substr(0, length), ""));
    }
    for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += 1 + bit / 200) {
      CAPTURE(bit);
      std::string flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      REQUIRE(refused(flipped, ""));
    }
    std::string future = bytes;
    future[8] = 5;
    CHECK(refused(future, "version 5"));
    REQUIRE_THROWS_AS(energon::decode_saved_state(future), Error);
  }
  CHECK(refused(encode_job_state(job.save()), "a job of 2 ranks"));
  // No part of these states was applied.
  CHECK(loader.save_state_rank() == before);
  SavableDataLoader reference(pipeline);
  take(reference, 2);
  CHECK(take(loader, 15) == take(reference, 15));
}

TEST_CASE("X-11 data that changed since the save is refused, and the shard is named",
          "[loader][cross]") {
  const energon::testing::TempDir folder;
  const auto prepared = [&](const std::vector<std::int64_t>& counts) {
    std::filesystem::remove_all(folder.file("set"));
    write_prepared(folder, {.name = "set", .counts = counts});
    return std::make_unique<SavableDataLoader>(
        energon::train_pipeline(energon::open_data(folder.file("set")), {.batch_size = 2}));
  };
  const std::string file = folder.file("state");
  {
    const auto loader = prepared({5, 7, 6});
    take(*loader, 3);
    write_loader_state(file, loader->save_state_rank());
  }
  const auto check_refused = [&](const std::vector<std::int64_t>& counts,
                                 const std::string& difference) {
    const auto expected = take(*prepared(counts), 5);
    const auto loader = prepared(counts);
    CHECK_THROWS_WITH(loader->restore_state_rank(energon::read_loader_state(file)),
                      Catch::Contains(difference));
    CHECK(take(*loader, 5) == expected);  // from the start
  };
  check_refused({5, 7, 6, 4}, "data-3.tar: 4 samples");
  check_refused({5, 8, 6}, "data-1.tar: 8 samples");
  check_refused({5, 6, 7}, "data-1.tar: 6 samples");  // the same total
  check_refused({5, 7}, "data-2.tar: 6 samples");
  prepared({5, 7, 6})->restore_state_rank(energon::read_loader_state(file));
}

TEST_CASE("X-12 without data, each epoch ends at once", "[loader][cross][fork]") {
  TrainOptions options;
  options.repeat = false;
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    for (const auto policy : {energon::EpochPolicy::kStrict, energon::EpochPolicy::kLoop}) {
      CAPTURE(policy);
      SavableDataLoader loader(
          in_memory({0, 0}, options),
          {.worker_config = {.num_workers = workers, .logical_shards = 4}, .epoch_policy = policy});
      for (int i = 0; i < 3; ++i) {
        CAPTURE(i);
        CHECK_FALSE(loader.next());
      }
    }
  }
}

TEST_CASE("X-12 a tar without samples is skipped, also at the ends", "[loader][cross][fork]") {
  TrainOptions options;
  options.repeat = false;
  const energon::testing::TempDir folder;
  const auto dataset = energon::testing::numbered_dataset(folder, {0, 4, 0, 0, 5, 0});
  for (const int workers : {0, 2, 3}) {
    CAPTURE(workers);
    const PipelineFactory pipeline = energon::train_pipeline(dataset, options);
    SavableDataLoader loader(pipeline, {.worker_config = {.num_workers = workers}});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::int64_t> found;
      while (const auto batch = loader.next()) {
        found.push_back(energon::testing::numbers(*batch).front());
      }
      std::sort(found.begin(), found.end());
      CHECK(found == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
    }
  }
}

// A header that rots on disk keeps the time of its file, so only its sample is lost. A file with
// another time is compared with its index before it is read, and refused as a whole if it differs.
TEST_CASE("X-12 with a tar damaged in the middle, each position resumes the same",
          "[loader][cross][fork]") {
  const bool keeps_time = GENERATE(true, false);
  CAPTURE(keeps_time);
  TrainOptions options;
  options.batch_size = 2;
  options.repeat = false;
  options.errors = {.standard = {.action = energon::FailureAction::kSkip}};
  const LoaderFixture fixture(options, {8, 8, 8});
  const std::string damaged = fixture.folder().file("shard-001.tar");
  const auto time = std::filesystem::last_write_time(damaged);
  {  // The header of the fifth sample of the second tar.
    std::fstream tar(damaged, std::ios::in | std::ios::out | std::ios::binary);
    tar.seekp(4 * 1024 + 10);
    tar.put('\x7f');
  }
  std::filesystem::last_write_time(damaged, keeps_time ? time : time + std::chrono::seconds(9));
  std::vector<std::int64_t> usable(24);
  std::iota(usable.begin(), usable.end(), 0);
  std::erase_if(usable, [&](std::int64_t number) {
    return keeps_time ? number == 12 : number >= 8 && number < 16;
  });
  for (const int workers : {0, 2}) {
    for (const Interval every : kIntervals) {
      CAPTURE(workers, every.value_or(0));
      const LoaderOptions settings{.worker_config = {.num_workers = workers},
                                   .checkpoint_every_batches = every};
      SavableDataLoader reference(fixture.pipeline(), settings);
      std::vector<std::string> expected;
      std::vector<std::int64_t> found;
      for (int epoch = 0; epoch < 2;) {
        const auto batch = reference.next();
        expected.push_back(batch ? energon::testing::label(*batch) : energon::testing::kEpochEnd);
        if (batch && epoch == 0) {
          const auto more = energon::testing::numbers(*batch);
          found.insert(found.end(), more.begin(), more.end());
        }
        epoch += batch ? 0 : 1;
      }
      std::sort(found.begin(), found.end());
      CHECK(found == usable);
      CHECK_FALSE(reference.stats().newest_reports.empty());
      SavableDataLoader walker(fixture.pipeline(), settings);
      for (std::size_t k = 0; k < expected.size(); ++k) {
        CAPTURE(k);
        SavableDataLoader resumed(fixture.pipeline(), settings);
        resumed.restore_state_rank(walker.save_state_rank());
        REQUIRE(take(resumed, expected.size() - k) ==
                energon::testing::tail(expected, k, expected.size() - k));
        take(walker, 1);
      }
    }
  }
}

}  // namespace
