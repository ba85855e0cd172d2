// Ranks that see different damage still divide the data alike: no sample is repeated, and only
// samples that a rank cannot read are missing.

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "energon/loader/savable_data_loader.h"
#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/error_of.h"
#include "tests/support/sanitizer.h"
#include "tests/support/skip.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/recipe/pipeline.h"

using energon::BrokenShards;
using energon::ErrorCode;
using energon::FailureAction;
using energon::PipelineData;
using energon::SavableDataLoader;
using energon::testing::error_of;
using energon::testing::numbers;
using energon::testing::TempDir;

namespace {

const std::vector<std::int64_t> kSixty(10, 60);  // 600 samples

energon::DataOptions skip_broken() {
  energon::DataOptions options;
  options.open.broken_shards = BrokenShards::kSkip;
  options.open.index_threads = 2;
  return options;
}

energon::TrainOptions once(FailureAction on_error) {
  return {.batch_size = 1,
          .shuffle_buffer_size = 20,
          .repeat = false,
          .errors = {.standard = {.action = on_error}}};
}

// How often each sample was delivered by the ranks of a job, each of which opened the data itself.
std::map<std::int64_t, int> deliver(const std::vector<PipelineData>& data_of_rank) {
  std::map<std::int64_t, int> times;
  for (std::size_t rank = 0; rank < data_of_rank.size(); ++rank) {
    SavableDataLoader loader(
        train_pipeline(data_of_rank[rank], once(FailureAction::kSkip)),
        {.worker_config = {.rank = static_cast<int>(rank),
                           .world_size = static_cast<int>(data_of_rank.size())}});
    while (const auto batch = loader.next()) {
      for (const std::int64_t number : numbers(*batch)) {
        ++times[number];
      }
    }
  }
  return times;
}

}  // namespace

TEST_CASE("a shard that one rank cannot open does not change the division", "[loader][broken]") {
  const TempDir folder;
  std::string path = folder.path();
  SECTION("plain tars that were indexed earlier") {
    energon::testing::write_numbered_shards(folder, kSixty);
    energon::open_data(path);
  }
  SECTION("a prepared dataset") {
    write_prepared(folder, {.name = "data", .counts = kSixty});
    path = folder.file("data");
  }
  const auto healthy = energon::open_data(path, skip_broken());
  // A part of the file is missing for a moment, while rank 1 opens it.
  std::vector<std::string> shards;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.path().extension() == ".tar") {
      shards.push_back(entry.path().string());
    }
  }
  std::sort(shards.begin(), shards.end());
  REQUIRE(shards.size() == 10);
  const std::string& shard = shards[4];
  const auto size = std::filesystem::file_size(shard);
  const auto time = std::filesystem::last_write_time(shard);
  std::filesystem::copy_file(shard, shard + ".kept");
  std::filesystem::resize_file(shard, 3000);
  const auto damaged = energon::open_data(path, skip_broken());
  std::filesystem::rename(shard + ".kept", shard);
  std::filesystem::last_write_time(shard, time);
  REQUIRE(std::filesystem::file_size(shard) == size);
  REQUIRE(damaged.broken.size() == 1);
  CHECK(damaged.leaves.front().length == healthy.leaves.front().length);

  // Opened again, because the restored file is another one.
  const auto again = energon::open_data(path, skip_broken());
  const auto all = deliver({again, again});
  CHECK(all.size() == 600);
  const auto times = deliver({again, damaged});
  std::set<std::int64_t> missing;
  for (std::int64_t number = 0; number < 600; ++number) {
    CAPTURE(number);
    const int count = times.contains(number) ? times.at(number) : 0;
    CHECK(count <= 1);
    if (count == 0) {
      missing.insert(number);
    }
  }
  // The shard has 60 samples, and is in the first half of the data, which is the share of rank 0,
  // or not.
  for (const std::int64_t number : missing) {
    CAPTURE(number);
    CHECK(number / 60 == 4);
  }
  CHECK(deliver({damaged, damaged}).size() == 540);
}

TEST_CASE("too many open files end the stream, whatever the policy", "[loader][broken]") {
  if (ENERGON_ADDRESS_SANITIZER) {
    return energon::testing::skip_case("the sanitizer needs descriptors of its own");
  }
  const TempDir folder;
  energon::testing::write_numbered_shards(folder, {10, 10});
  const auto data = energon::open_data(folder.path(), skip_broken());
  SavableDataLoader loader(train_pipeline(data, once(FailureAction::kSkip)));
  const auto start = loader.save_state_rank();
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const std::string error = error_of([&] { loader.next(); }, ErrorCode::kIo);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  CHECK_THAT(error, Catch::Contains("Too many open files"));
  CHECK(loader.stats().failures.empty());
  loader.restore_state_rank(start);
  std::int64_t samples = 0;
  while (const auto batch = loader.next()) {
    samples += static_cast<std::int64_t>(batch->keys.size());
  }
  CHECK(samples == 20);
}
