// Commands that read a prepared dataset while another process prepares it again at a chosen moment
// (tests/support/shared_faults): they read one set of its files, not a mixture.

#include <cstdlib>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/cli/energon_program.h"
#include "tests/support/tar_builder.h"

using energon::testing::ProgramResult;
using energon::testing::run_energon;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using energon::testing::Words;

namespace {

std::string prepare_command(const std::string& path, const std::string& options = "") {
  return fmt::format("{} prepare {} --force-overwrite --split-ratio 1,0,0 {} >/dev/null 2>&1",
                     ENERGON_PROGRAM, path, options);
}

// Runs energon; `command` is run before it first opens a path that ends with `moment`.
ProgramResult run_beside(const Words& arguments, const std::string& moment,
                         const std::string& command) {
  ::setenv("ENERGON_TEST_RUN", command.c_str(), 1);
  ::setenv("ENERGON_TEST_RUN_AT", moment.c_str(), 1);
  ::setenv("LD_PRELOAD", ENERGON_SHARED_FAULTS, 1);
  ::setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
  ProgramResult result = run_energon(arguments);
  for (const char* const name :
       {"ENERGON_TEST_RUN", "ENERGON_TEST_RUN_AT", "LD_PRELOAD", "ASAN_OPTIONS"}) {
    ::unsetenv(name);
  }
  return result;
}

// Two shards. `--exclude a-` leaves out the first one.
void write_dataset(const TempDir& folder, const std::string& name) {
  folder.write(name + "/a-0.tar", TarBuilder().file("1.txt", "one").end().text());
  folder.write(name + "/b-0.tar", TarBuilder().file("2.txt", "two").end().text());
}

}  // namespace

TEST_CASE("get and info read one set of files while the dataset is prepared",
          "[cli][get][info][fork]") {
  const TempDir folder;
  write_dataset(folder, "d");
  const std::string path = folder.file("d");
  REQUIRE(std::system(prepare_command(path).c_str()) == 0);
  const std::string without_first = prepare_command(path, "--exclude a-");
  SECTION("get") {
    const ProgramResult result =
        run_beside({"get", path, "2.txt", "--output", "-"}, "/index.sqlite", without_first);
    INFO(result.err);
    CHECK(result.out == "two");
  }
  SECTION("info") {
    const ProgramResult result = run_beside({"info", path}, "/split.yaml", without_first);
    INFO(result.err);
    CHECK_THAT(result.out, Catch::Contains("shards:    1\n") &&
                               Catch::Contains("train: 100%, 1 sample in 1 shard\n"));
  }
}

TEST_CASE("a join is opened over one set of files of each dataset", "[cli][recipe][fork]") {
  const TempDir folder;
  write_dataset(folder, "one");
  write_dataset(folder, "two");
  const std::string path =
      folder.write("m.yaml",
                   "__class__: MetadatasetV2\nsplits: {train: {join: [{path: one}, {path: two, "
                   "nonmatch: none}], joiner: {__class__: C}}}\n");
  const std::string prepare_join =
      fmt::format(" && {} prepare {} >/dev/null", ENERGON_PROGRAM, path);
  const std::string without_first = prepare_command(folder.file("one"), "--exclude a-");
  REQUIRE(std::system((prepare_command(folder.file("two")) + " && " + without_first + prepare_join)
                          .c_str()) == 0);
  // The dataset `one` is open, with a single shard, when it is prepared with two.
  const ProgramResult result =
      run_beside({"run", path, "--mode", "val", "--batch-size", "1", "--num-workers", "0"},
                 "two/a-0.tar.idx", prepare_command(folder.file("one")) + prepare_join);
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(energon::testing::json_lines(result.out).size() == 2);
}
