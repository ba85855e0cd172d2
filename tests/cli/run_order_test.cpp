#include <algorithm>
#include <csignal>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/tar_builder.h"

using energon::testing::keys_of;
using energon::testing::kTens;
using energon::testing::numbered_key;
using energon::testing::numbers_of;
using energon::testing::run_energon;
using energon::testing::run_lines;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;
using Numbers = std::vector<std::int64_t>;

namespace {

std::vector<std::string> all_keys() {
  std::vector<std::string> keys;
  for (int i = 0; i < 55; ++i) {
    keys.push_back(numbered_key(i));
  }
  return keys;
}

std::vector<std::string> sorted(std::vector<std::string> keys) {
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace

TEST_CASE("run prints the fields of a batch in their order", "[cli][run]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const auto lines = run_lines(folder.path(), {"--limit", "1", "--batch-size", "2"});
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0],
             Catch::StartsWith(R"({"rank":0,"worker":0,"index":0,"keys":["000010","000040"],)"
                               R"("restore_key":"LogicalShard(0,0)/Batch(0)[Webdataset(0,10),)"
                               R"(Webdataset(0,40)]","digest":")"));
  CHECK(nlohmann::json::parse(lines[0]).at("digest").get<std::string>().size() == 16);
}

TEST_CASE("run gives Energon's order in one process", "[cli][run]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  CHECK(numbers_of(run_lines(folder.path(), {"--limit", "40"})) ==
        Numbers{10, 40, 11, 20, 50, 41, 42, 30, 31, 43, 0,  1,  21, 32, 51, 52, 33, 34, 53, 44,
                35, 45, 46, 54, 47, 48, 12, 2,  49, 3,  22, 36, 13, 23, 37, 24, 14, 15, 25, 16});
  CHECK(numbers_of(run_lines(folder.path(), {"--limit", "24", "--shuffle-buffer-size", "42",
                                             "--max-samples-per-sequence", "2"})) ==
        Numbers{14, 19, 44, 25, 31, 22, 27, 5,  40, 8, 23, 38,
                17, 33, 29, 2,  11, 0,  18, 42, 20, 2, 24, 39});
}

TEST_CASE("run gives Energon's order in each of two workers", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const auto lines = run_lines(folder.path(), {"--limit", "40", "--num-workers", "2"});
  std::vector<std::vector<std::string>> of_worker(2);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CAPTURE(i);
    const auto line = nlohmann::json::parse(lines[i]);
    CHECK(line.at("index") == i);
    of_worker.at(line.at("worker").get<std::size_t>()).push_back(lines[i]);
  }
  CHECK(numbers_of(of_worker[0]) ==
        Numbers{10, 11, 12, 0, 20, 1, 21, 13, 22, 23, 14, 15, 24, 2, 3, 25, 16, 17, 18, 19});
  CHECK(numbers_of(of_worker[1]) ==
        Numbers{50, 30, 51, 40, 52, 31, 32, 28, 53, 33, 41, 34, 35, 54, 36, 42, 43, 37, 29, 38});
}

TEST_CASE("one epoch has each key exactly once, whatever the number of workers",
          "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "1", "2", "3");
  CHECK(sorted(keys_of(run_lines(folder.path(), {"--epochs", "1", "--num-workers", workers}))) ==
        all_keys());
  CHECK(keys_of(run_lines(folder.path(), {"--epochs", "2", "--num-workers", workers})).size() ==
        110);
  CHECK(sorted(keys_of(run_lines(folder.path(), {"--mode", "val", "--num-workers", workers}))) ==
        all_keys());
}

TEST_CASE("virtual epochs have the given length", "[cli][run]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  CHECK(run_lines(folder.path(), {"--epochs", "3", "--virtual-epoch-length", "7"}).size() == 21);
}

TEST_CASE("with --no-repeat a virtual epoch ends with the data", "[cli][run]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const auto keys = keys_of(
      run_lines(folder.path(), {"--epochs", "2", "--virtual-epoch-length", "40", "--no-repeat"}));
  CHECK(keys.size() == 55);
  CHECK(std::set<std::string>(keys.begin(), keys.end()).size() == 55);
  CHECK(run_energon({"run", folder.path(), "--mode", "val", "--no-repeat"}).exit_code == 2);
}

TEST_CASE("all values of --shuffle-over-epochs are accepted", "[cli][run]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  CHECK(keys_of(run_lines(folder.path(), {"--shuffle-over-epochs", "none", "--epochs", "1"})) ==
        all_keys());
  CHECK(run_lines(folder.path(), {"--shuffle-over-epochs", "-1", "--limit", "200"}).size() == 200);
  CHECK(run_lines(folder.path(), {"--shuffle-over-epochs", "3", "--limit", "200"}).size() == 200);
}

TEST_CASE("two ranks share the data without overlap", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  std::vector<std::string> keys;
  for (const std::string rank : {"0", "1"}) {
    CAPTURE(rank);
    const auto lines = run_lines(folder.path(), {"--epochs", "1", "--world-size", "2", "--rank",
                                                 rank, "--num-workers", "2", "--batch-size", "4"});
    for (const std::string& line : lines) {
      CAPTURE(line);
      const auto json = nlohmann::json::parse(line);
      CHECK(std::to_string(json.at("rank").get<int>()) == rank);
      CHECK(json.at("worker").get<int>() < 2);
    }
    const auto more = keys_of(lines);
    keys.insert(keys.end(), more.begin(), more.end());
  }
  CHECK(sorted(keys) == all_keys());
}

TEST_CASE("samples that lack a part are batched with the others", "[cli][run]") {
  const TempDir folder;
  folder.write("a.tar", energon::testing::TarBuilder()
                            .file("1.txt", "one")
                            .file("2.json", "{}")
                            .file("3.txt", "three")
                            .file("3.json", "{}")
                            .end()
                            .text());
  const auto lines = run_lines(folder.path(), {"--mode", "val", "--batch-size", "3"});
  CHECK(keys_of(lines) == std::vector<std::string>{"1", "2", "3"});
}

TEST_CASE("a reader that leaves early ends the run quietly", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "2");
  energon::testing::RunningProgram program({"run", folder.path(), "--num-workers", workers});
  CHECK_THAT(program.read_line(), Catch::StartsWith(R"({"rank":0)"));
  program.close_output();
  const auto result = program.finish();
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
}

TEST_CASE("Ctrl-C ends an endless run after a whole line", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "2");
  energon::testing::RunningProgram program({"run", folder.path(), "--num-workers", workers});
  program.read_line();
  program.send_signal(SIGINT);
  const auto result = program.finish();
  CHECK(result.exit_code == 130);
  CHECK(result.err.empty());
  CHECK((result.out.empty() || result.out.ends_with("}\n")));
}
