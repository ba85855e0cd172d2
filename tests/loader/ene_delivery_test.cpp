// The acceptance tests of the savable loader about what it delivers: batches that are rebuilt, the
// debug log, and the basic loader beside it.

#include <map>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/loader/basic_data_loader.h"
#include "io/error.h"
#include "io/file_source.h"
#include "tests/loader/loader_fixture.h"

using energon::BasicDataLoader;
using energon::Error;
using energon::LoaderOptions;
using energon::Sample;
using energon::SavableDataLoader;
using energon::testing::kEpochEnd;
using energon::testing::kFx55;
using energon::testing::label;
using energon::testing::LoaderFixture;
using energon::testing::take;

TEST_CASE("ENE-17 batches are rebuilt from their keys in another loader", "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 3, .shuffle_buffer_size = 11}, kFx55, 300);
  const auto loader = fixture.loader(2);
  const auto other = fixture.loader(2);
  for (int i = 0; i < 50; ++i) {
    const auto batch = loader->next();
    const Sample rebuilt =
        other->restore_sample(energon::RestoreKey::from_text(batch->restore_key.text()));
    CHECK(label(rebuilt) == label(*batch));
    CHECK(rebuilt.keys == batch->keys);
    CHECK(rebuilt.sources.at(0).shard->shard_name == batch->sources.at(0).shard->shard_name);
  }
  for (const char* key : {"LogicalShard(0,1)/Webdataset(0,1)", "Batch(0)[Webdataset(0,1)]",
                          "LogicalShard(2,0)/Batch(0)[Webdataset(0,1)]",
                          "LogicalShard(0,0)/Batch(0)[Webdataset(0,55)]",
                          "LogicalShard(0,0)/Batch(0)[Webdataset(1,5)]"}) {
    CHECK_THROWS_AS(other->restore_sample(energon::RestoreKey::from_text(key)), Error);
  }
}

TEST_CASE("ENE-20 the debug log tells what was delivered", "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .repeat = false}, {40});
  for (const int workers : {0, 2}) {
    const energon::testing::TempDir folder;
    {
      const auto loader =
          fixture.loader(workers, {.debug_log_path = folder.file("log-{worker_id}.jsonl")});
      take(*loader, 21 + 3);
    }
    const auto lines_of = [&folder](int number) {
      std::vector<energon::Config> lines;
      std::istringstream text(
          energon::read_file(folder.file("log-" + std::to_string(number) + ".jsonl")));
      for (std::string line; std::getline(text, line);) {
        lines.push_back(energon::Config::parse(line));
      }
      return lines;
    };
    const auto lines = lines_of(0);
    REQUIRE(lines.size() == 1 + (1 + 20 + 1) + (1 + 3));
    CHECK(lines[0].at("t") == "SavableDataLoader.__init__");
    CHECK(lines[1].at("t") == "SavableDataLoader.iter");
    std::map<std::int64_t, std::int64_t> next_of_worker;
    for (std::int64_t i = 0; i < 20; ++i) {
      const auto& line = lines[static_cast<std::size_t>(2 + i)];
      CHECK(line.at("t") == "SavableDataLoader.yield");
      CHECK(line.at("iter_idx") == i);
      CHECK(line.at("global_idx") == i);
      CHECK(line.at("keys").size() == 2);
      CHECK(line.at("worker_idx") == next_of_worker[line.at("worker_id").get<std::int64_t>()]++);
    }
    CHECK(lines[22].at("t") == "SavableDataLoader.StopIteration");
    CHECK(lines[24].at("iter_idx") == 0);
    CHECK(lines[24].at("global_idx") == 20);
    for (int worker = 0; worker < workers; ++worker) {
      const auto of_worker = lines_of(worker + 1);
      REQUIRE(of_worker.size() >= 10);
      CHECK(of_worker[3].at("t") == "yield_batch");
      CHECK(of_worker[3].at("w") == worker);
      CHECK(of_worker[3].at("idx") == 3);
    }
  }
}

TEST_CASE("ENE-22 the basic loader has the same order, and several iterations at once",
          "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 4, .repeat = false});
  for (const int workers : {0, 2}) {
    const LoaderOptions options{.worker_config = {.num_workers = workers}};
    const auto expected = take(*fixture.loader(workers), 20);
    BasicDataLoader loader(fixture.pipeline(), options);
    auto first = loader.iterate();
    auto second = loader.iterate();
    for (const std::string& item : expected) {
      for (auto* iteration : {&first, &second}) {
        const auto batch = iteration->next();
        CHECK((batch ? label(*batch) : kEpochEnd) == item);
        if (batch) {
          CHECK(label(loader.restore_sample(batch->restore_key)) == item);
        }
      }
    }
    CHECK(loader.size() == 14);
  }
}
