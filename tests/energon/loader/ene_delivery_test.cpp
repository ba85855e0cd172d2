// The acceptance tests of the savable loader about delivery: rebuilt batches, the debug log, and
// the basic loader.

#include <map>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/loader/basic_data_loader.h"
#include "io/error.h"
#include "io/file.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/child_runner.h"

using energon::BasicDataLoader;
using energon::Error;
using energon::LoaderOptions;
using energon::Sample;
using energon::SavableDataLoader;
using energon::testing::kEpochEnd;
using energon::testing::label;
using energon::testing::LoaderFixture;
using energon::testing::take;

TEST_CASE("ENE-17 batches are rebuilt from their keys in a fresh process", "[loader][ene][fork]") {
  // Through batch, shuffle and blend.
  const energon::testing::TempDir folder;
  energon::PipelineData data;
  data.mixing = energon::Mixing::kWeighted;
  for (const std::int64_t count : {30, 25}) {
    data.leaves.push_back({.name = std::to_string(count), .length = count, .weight = 1});
  }
  const LoaderFixture first({}, {30}, 300);
  const LoaderFixture second({}, {25}, 200);
  data.leaves[0].dataset = first.dataset();
  data.leaves[1].dataset = second.dataset();
  const auto make = [&](int workers) {
    return std::make_unique<SavableDataLoader>(
        energon::train_pipeline(data, {.batch_size = 3, .shuffle_buffer_size = 11}),
        LoaderOptions{.worker_config = {.num_workers = workers}});
  };
  const auto loader = make(2);
  std::string list;
  std::set<std::int64_t> leaves;
  for (int i = 0; i < 50; ++i) {
    const auto batch = loader->next();
    list += batch->restore_key.text() + "\n" + label(*batch) + "\n" +
            batch->sources.at(0).shard->dataset_path + "\n";
    for (const auto& source : batch->sources) {
      leaves.insert(source.shard->dataset_path == first.dataset()->shards().dataset_path ? 0 : 1);
    }
  }
  CHECK(leaves.size() == 2);
  folder.write("keys", list);
  const auto result = energon::testing::run_in_child([&] {
    const auto other = make(2);
    std::istringstream lines(energon::read_file(folder.file("keys")));
    int rebuilt = 0;
    for (std::string key, expected, path;
         std::getline(lines, key) && std::getline(lines, expected) && std::getline(lines, path);) {
      const Sample batch = other->restore_sample(energon::RestoreKey::from_text(key));
      if (label(batch) != expected || batch.sources.at(0).shard->dataset_path != path) {
        return 1;
      }
      ++rebuilt;
    }
    return rebuilt == 50 ? 0 : 2;
  });
  CHECK(result.exited);
  CHECK(result.exit_code == 0);

  const auto other = make(2);
  const auto error_of = [&](const char* key) -> std::string {
    try {
      other->restore_sample(energon::RestoreKey::from_text(key));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  // A stage that does not exist, and places that do not exist.
  CHECK_THAT(error_of("LogicalShard(0,1)/Webdataset(0,1)"), Catch::Contains("Batch"));
  CHECK_THAT(error_of("Batch(0)[Webdataset(0,1)]"), Catch::Contains("LogicalShard"));
  CHECK_THAT(error_of("LogicalShard(2,0)/Batch(0)[Webdataset(0,1)]"), Catch::Contains("2"));
  CHECK_THAT(error_of("LogicalShard(0,0)/Batch(0)[Webdataset(0,30)]"),
             Catch::Contains("refers to sample 30") && Catch::Contains("has 30 samples"));
  CHECK_THAT(error_of("LogicalShard(0,0)/Batch(0)[Webdataset(2,5)]"),
             Catch::Contains("refers to leaf 2, but the pipeline has 2"));
}

TEST_CASE("ENE-20 the debug log records what was delivered", "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .repeat = false}, {40});
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
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
      CAPTURE(i);
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
      CAPTURE(worker);
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
    CAPTURE(workers);
    const LoaderOptions options{.worker_config = {.num_workers = workers}};
    const auto expected = take(*fixture.loader(workers), 20);
    BasicDataLoader loader(fixture.pipeline(), options);
    auto first = loader.iterate();
    auto second = loader.iterate();
    for (const std::string& item : expected) {
      CAPTURE(item);
      for (auto* iteration : {&first, &second}) {
        const auto batch = iteration->next();
        CHECK((batch ? label(*batch) : kEpochEnd) == item);
        if (batch) {
          CHECK(label(loader.restore_sample(batch->restore_key)) == item);
        }
      }
    }
    CHECK(loader.size() == 14);
    CHECK(loader.config().at("type") == "BasicDataLoader");
    CHECK(loader.options().worker_config.num_workers == workers);
  }
}
