#include "wrappers/watch/log_sample.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/recipe/pipeline.h"

using energon::Dataset;
using energon::LogSample;
using energon::testing::TempDir;

namespace {

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

}  // namespace

TEST_CASE("each item that passes is a line, whose restore key rebuilds it", "[wrappers][log]") {
  const TempDir folder;
  energon::HeapBufferPool memory;
  const auto make = energon::train_pipeline(
      energon::testing::numbered_dataset(folder, energon::testing::kTens), {.batch_size = 3});
  LogSample stage(make({.memory = memory}), folder.file("log-{worker_id}.jsonl"),
                  {.rank = 1, .world_size = 2, .num_workers = 4}, 2);
  const std::string path = folder.file("log-8.jsonl");
  CHECK_FALSE(std::filesystem::exists(path));
  const auto first = stage.next();
  std::vector<energon::Sample> more;
  stage.next_many(2, more);
  CHECK(stage.skip(4) == 4);
  const auto last = stage.next();
  const auto lines = lines_of(path);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0]["t"] == "yield_batch");
  CHECK(lines[0]["r"] == 1);
  CHECK(lines[0]["w"] == 2);
  CHECK(lines[0]["keys"] == first->keys.strings());
  CHECK(lines[2]["idx"] == 2);
  CHECK(lines[2]["keys"] == more[1].keys.strings());
  CHECK(lines[3]["idx"] == 7);
  const auto key = energon::RestoreKey::from_text(lines[3]["restore_key"].get<std::string>());
  CHECK(digest(stage.restore_sample(key)) == digest(*last));
  CHECK(lines_of(path).size() == 4);
}

TEST_CASE("a log that cannot be written is an error", "[wrappers][log]") {
  const TempDir folder;
  energon::HeapBufferPool memory;
  const auto make =
      energon::train_pipeline(energon::testing::numbered_dataset(folder, energon::testing::kTens));
  folder.write("file", "");
  LogSample stage(make({.memory = memory}), folder.file("file/log.jsonl"), {}, 0);
  CHECK_THROWS_WITH(stage.next(), Catch::Contains("file/log.jsonl"));
  LogSample created(make({.memory = memory}), folder.file("new/folder/log.jsonl"), {}, 0);
  created.next();
  CHECK(lines_of(folder.file("new/folder/log.jsonl")).size() == 1);
}

TEST_CASE("logged pipelines conform", "[wrappers][log][conformance]") {
  const TempDir folder;
  energon::HeapBufferPool memory;
  const auto make =
      energon::train_pipeline(energon::testing::numbered_dataset(folder, energon::testing::kTens),
                              {.batch_size = 2, .repeat = false});
  energon::testing::check_conformance<Dataset>(
      [&]() -> std::unique_ptr<Dataset> {
        return std::make_unique<LogSample>(make({.memory = memory}), folder.file("log"),
                                           energon::WorkerConfig{}, 0);
      },
      60);
}
