// Acceptance tests across restartable loaders: IBM-06, X-02, X-04, X-05, X-07,
// X-10, X-11, X-12. X-08 and X-09 are in process_test.cpp.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <catch2/catch.hpp>

#include "energon/loader/rescale.h"
#include "io/error.h"
#include "tests/loader/job.h"
#include "tests/loader/loader_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/open_data.h"

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

// Two datasets by share 3 : 5, shuffled, packed.
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
    leaf.length_of_sample = [](std::int64_t index) { return 20 + index % 30; };
    data.leaves.push_back(std::move(leaf));
  }
  TrainOptions options;
  options.blend_by = energon::BlendBy::kShare;
  options.shuffle_buffer_size = 99;
  options.packing_buffer_size = 10;
  options.task_encoder.select_samples_to_pack = [](std::span<const energon::Sample> samples) {
    std::vector<std::vector<std::size_t>> packs;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (i % 3 == 0) {
        packs.emplace_back();
      }
      packs.back().push_back(i);
    }
    return packs;
  };
  options.task_encoder.pack_selected_samples =
      [](std::span<energon::Sample>, energon::CallContext&) { return energon::Mapping(); };
  return energon::train_pipeline(std::move(data), std::move(options));
}

TEST_CASE("IBM-06 a chain of stages goes on element by element", "[loader][ibm]") {
  const PipelineFactory pipeline = chain();
  for (const int before : {0, 1, 10, 100, 1000}) {
    CAPTURE(before);
    Job first(pipeline, {.world_size = 3, .logical_shards = 15});
    first.steps(before);
    Job second(pipeline, {.world_size = 3, .logical_shards = 15});
    second.restore(first.save());
    CHECK(second.steps(500) == first.steps(500));
  }
}

TEST_CASE("IBM-06 also with two workers a rank", "[loader][ibm][fork]") {
  const PipelineFactory pipeline = chain();
  for (const int before : {0, 1, 100}) {
    CAPTURE(before);
    Job first(pipeline, {.world_size = 3, .num_workers = 2, .logical_shards = 15});
    first.steps(before);
    Job second(pipeline, {.world_size = 3, .num_workers = 2, .logical_shards = 15});
    second.restore(first.save());
    CHECK(second.steps(200) == first.steps(200));
  }
}

TEST_CASE("X-02 five times taken, saved, killed and restored is as uninterrupted",
          "[loader][cross][fork]") {
  TrainOptions options;
  options.batch_size = 2;
  options.shuffle_buffer_size = 7;
  const LoaderFixture fixture(options);
  const LoaderOptions settings{.worker_config = {.num_workers = 2}};
  SavableDataLoader reference(fixture.pipeline(), settings);
  const auto expected = take(reference, 50);
  const energon::testing::TempDir folder;
  const std::string state = folder.file("state");
  const std::string log = folder.file("log");
  for (const int taken : {3, 11, 1, 20, 15}) {
    const auto child = energon::testing::run_in_child([&] {
      SavableDataLoader loader(fixture.pipeline(), settings);
      if (std::filesystem::exists(state)) {
        loader.restore_state_rank(energon::read_loader_state(state));
      }
      std::ofstream lines(log, std::ios::app);
      for (const std::string& line : take(loader, static_cast<std::size_t>(taken))) {
        lines << line << '\n';
      }
      lines.flush();
      energon::write_loader_state(state, loader.save_state_rank());
      loader.next();  // more than the state knows of
      return ::raise(SIGKILL);
    });
    CHECK(child.signal == SIGKILL);
  }
  std::ifstream lines(log);
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    found.push_back(line);
  }
  CHECK(found == expected);
}

TEST_CASE("X-10 how far workers may be ahead changes nothing, and they stop when blocked",
          "[loader][cross][fork]") {
  TrainOptions options;
  options.batch_size = 4;
  const LoaderFixture fixture(options, kFx55, 100'000);
  std::vector<std::string> expected;
  for (const int prefetch : {1, 2, 5, 8}) {
    CAPTURE(prefetch);
    // Room for what is ahead and little more.
    SavableDataLoader loader(fixture.pipeline(), {.worker_config = {.num_workers = 2},
                                                  .prefetch_factor = prefetch,
                                                  .arena_limit_bytes = std::uint64_t{16} << 20});
    const auto found = take(loader, 40);
    expected = expected.empty() ? found : expected;
    CHECK(found == expected);
    const auto begin = std::chrono::steady_clock::now();
    loader.stop();  // while the workers wait for room
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));  // of a minute
  }
}

TEST_CASE("X-04 from every position of two epochs the rest and the next epoch are the same",
          "[loader][cross][fork]") {
  TrainOptions options;
  options.batch_size = 2;
  options.repeat = false;
  for (const int workers : {0, 1, 2, 3}) {
    for (const std::optional<int> shards : {std::optional<int>(), std::optional<int>(5)}) {
      CAPTURE(workers, shards.value_or(0));
      const PipelineFactory pipeline = in_memory({3, 10}, options);
      const LoaderOptions settings{
          .worker_config = {.num_workers = workers, .logical_shards = shards}};
      SavableDataLoader reference(pipeline, settings);
      const auto expected = take(reference, 30);
      SavableDataLoader walker(pipeline, settings);
      for (std::size_t k = 0; k < 18; ++k) {
        SavableDataLoader resumed(pipeline, settings);
        resumed.restore_state_rank(walker.save_state_rank());
        REQUIRE(take(resumed, 12) ==
                std::vector<std::string>(expected.begin() + static_cast<std::ptrdiff_t>(k),
                                         expected.begin() + static_cast<std::ptrdiff_t>(k + 12)));
        take(walker, 1);
      }
    }
  }
}

TEST_CASE("X-05 workers that are slow at times change neither order nor state",
          "[loader][cross][fork]") {
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

TEST_CASE("X-07 of a job's state that is cut, flipped, or of the future nothing is accepted",
          "[loader][cross]") {
  TrainOptions options;
  options.batch_size = 2;
  Job job(in_memory({20}, options), {.world_size = 2, .logical_shards = 2});
  job.steps(3);
  const std::string bytes = encode_job_state(job.save());
  CHECK(std::get<energon::SavableJobState>(energon::decode_saved_state(bytes)) == job.save());
  for (std::size_t length = 0; length < bytes.size(); length += 1 + length / 20) {
    REQUIRE_THROWS_AS(energon::decode_saved_state(bytes.substr(0, length)), Error);
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += 1 + bit / 100) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    REQUIRE_THROWS_AS(energon::decode_saved_state(flipped), Error);
  }
  std::string future = bytes;
  future[8] = 3;
  CHECK_THROWS_WITH(energon::decode_saved_state(future), Catch::Contains("version 3"));
  CHECK_THROWS_WITH(energon::decode_loader_state(bytes), Catch::Contains("a job of 2 ranks"));
}

TEST_CASE("X-11 of data that changed since the save nothing is restored, and the shard is named",
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
  check_refused({5, 6, 7}, "data-1.tar: 6 samples");  // as many in all
  check_refused({5, 7}, "data-2.tar: 6 samples");
  prepared({5, 7, 6})->restore_state_rank(energon::read_loader_state(file));
}

TEST_CASE("X-12 of no data the epoch is over at once, again and again", "[loader][cross][fork]") {
  TrainOptions options;
  options.repeat = false;
  for (const int workers : {0, 2}) {
    for (const auto policy : {energon::EpochPolicy::kStrict, energon::EpochPolicy::kLoop}) {
      SavableDataLoader loader(
          in_memory({0, 0}, options),
          {.worker_config = {.num_workers = workers, .logical_shards = 4}, .epoch_policy = policy});
      for (int i = 0; i < 3; ++i) {
        CHECK_FALSE(loader.next());
      }
    }
  }
}

}  // namespace
