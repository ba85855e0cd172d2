// What the commands report about truncated, damaged and replaced shards.

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/tar_builder.h"

using energon::read_file;
using energon::testing::run_lines;
using energon::testing::operator+;
using energon::testing::ProgramResult;
using energon::testing::run_energon;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using energon::testing::Words;

namespace fs = std::filesystem;

namespace {

TarBuilder three_samples(const std::string& prefix) {
  TarBuilder tar;
  for (const char* sample : {"1", "2", "3"}) {
    for (const char* part : {".cls", ".seg", ".txt"}) {
      tar.file(prefix + sample + part, prefix + sample);
    }
  }
  return tar;
}

ProgramResult prepare(const std::string& path, const Words& more = {}) {
  return run_energon(Words{"prepare", path, "--split-ratio", "1,0,0"} + more);
}

}  // namespace

TEST_CASE("run, info, prepare and lint warn about a tar without its end, or fail if strict",
          "[cli][damage]") {
  const TempDir folder;
  folder.write("a.tar", three_samples("a").text());
  folder.write("b.tar", three_samples("b").end().text());
  const bool is_prepared = GENERATE(false, true);
  if (is_prepared) {
    REQUIRE(prepare(folder.path()).exit_code == 0);
  }
  for (const Words& command :
       {Words{"run", folder.path(), "--mode", "val"},
        {"info", folder.path()},
        {"lint", folder.path()},
        {"get", folder.path(), "a1"},
        {"prepare", folder.path(), "--split-ratio", "1,0,0", "--force-overwrite"}}) {
    CAPTURE(command);
    const ProgramResult strict = run_energon(command + Words{"--strict-tars"});
    CHECK(strict.exit_code == 1);
    CHECK_THAT(strict.out + strict.err, Catch::Contains("no end-of-archive block"));
    CHECK_THAT(strict.out + strict.err, Catch::Contains("a.tar"));
    const ProgramResult result = run_energon(command);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.err, Catch::Contains("warning") &&
                               Catch::Contains("no end-of-archive block") &&
                               Catch::Contains("a.tar"));
  }
  if (is_prepared) {
    CHECK(run_energon({"get", folder.path(), "b1"}).err.empty());
  }
}

TEST_CASE("run, info, get, lint and prepare report an index without its shard", "[cli][damage]") {
  const TempDir folder;
  folder.write("a.tar", three_samples("a").end().text());
  folder.write("b.tar", three_samples("b").end().text());
  REQUIRE(run_energon({"info", folder.path()}).exit_code == 0);
  REQUIRE(fs::remove(folder.file("b.tar")));
  for (const Words& command : {Words{"run", folder.path(), "--mode", "val"},
                               {"info", folder.path()},
                               {"get", folder.path(), "a1"},
                               {"lint", folder.path()},
                               {"prepare", folder.path(), "--split-ratio", "1,0,0"}}) {
    CAPTURE(command);
    const ProgramResult result = run_energon(command);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.err, Catch::Contains("warning") &&
                               Catch::Contains("the index 'b.tar.idx' has no shard next to it"));
  }
}

TEST_CASE("get compares a sample with the parts that the database lists", "[cli][damage][get]") {
  const TempDir folder;
  folder.write("a.tar", three_samples("a").end().text());
  REQUIRE(prepare(folder.path()).exit_code == 0);
  std::string index = read_file(folder.file("a.tar.idx"));
  index[8 + 1] =
      static_cast<char>(index[8 + 1] ^ 4);  // sample 1 begins one part later: bit of 1024
  const bool is_recorded = GENERATE(true, false);
  if (!is_recorded) {
    fs::remove(folder.file(".nv-meta/shard_record.bin"));
  }
  folder.write("a.tar.idx", index);
  const ProgramResult result = run_energon({"get", folder.path(), "a2"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Catch::Contains("shard 'a.tar'"));
  CHECK_THAT(result.err, Catch::Contains("(cls, seg, txt) that differ"));
}

TEST_CASE("with --on-error skip no sample that lacks a part is delivered", "[cli][damage]") {
  const TempDir folder;
  folder.write("a.tar", three_samples("a").end().text());
  run_energon({"info", folder.path()});  // indexes it
  std::string index = read_file(folder.file("a.tar.idx"));
  const auto time = fs::last_write_time(folder.file("a.tar"));
  index[8 + 1] = static_cast<char>(index[8 + 1] ^ 4);
  folder.write("a.tar.idx", index);
  fs::last_write_time(folder.file("a.tar.idx"), time);
  const auto lines = run_lines(folder.path(), {"--mode", "val", "--on-error", "skip"});
  CHECK(energon::testing::keys_of(lines) == std::vector<std::string>{"a3"});
}

TEST_CASE("errors of get name the shard", "[cli][damage][get]") {
  const TempDir folder;
  std::string tar = three_samples("a").end().text();
  folder.write("a.tar", tar);
  const bool is_prepared = GENERATE(false, true);
  REQUIRE(run_energon({"info", folder.path()}).exit_code == 0);
  if (is_prepared) {
    REQUIRE(prepare(folder.path()).exit_code == 0);
  }
  const auto time = fs::last_write_time(folder.file("a.tar"));
  tar[3 * 1024 + 1024 + 1] ^= 1;  // a name in the second sample
  folder.write("a.tar", tar);
  fs::last_write_time(folder.file("a.tar"), time);
  const ProgramResult result = run_energon({"get", folder.path(), "a2"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Catch::Contains("a.tar") && Catch::Contains("4096"));
}

TEST_CASE("a shard that was replaced, or lost its checksums, is named", "[cli][damage]") {
  const TempDir folder;
  folder.write("a.tar", three_samples("a").end().text());
  folder.write("b.tar", three_samples("b").end().text());
  REQUIRE(prepare(folder.path(), {"--checksums"}).exit_code == 0);
  SECTION("replaced") {
    folder.write("b.tar", three_samples("c").end().text());
    fs::last_write_time(folder.file("b.tar"),
                        fs::last_write_time(folder.file("a.tar")) + std::chrono::hours(1));
    const ProgramResult result = run_energon({"run", folder.path(), "--mode", "val"});
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Catch::Contains("shard 'b.tar' is not the one that was prepared"));
  }
  SECTION("without its checksums") {
    fs::remove(folder.file("b.tar.xxh3"));
    const ProgramResult result = run_energon({"run", folder.path(), "--mode", "val"});
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Catch::Contains("b.tar.xxh3"));
    CHECK(run_lines(folder.path(), {"--mode", "val", "--verify-checksums", "off"}).size() == 6);
  }
}

TEST_CASE("a truncated tar with an older index is an error, and the index is kept",
          "[cli][damage]") {
  const TempDir folder;
  const std::string tar = three_samples("a").end().text();
  folder.write("a.tar", tar);
  REQUIRE(run_energon({"info", folder.path()}).exit_code == 0);
  folder.write("a.tar", tar.substr(0, 2 * 3072));
  const std::string index = read_file(folder.file("a.tar.idx"));
  for (const char* command : {"run", "info", "prepare", "lint"}) {
    CAPTURE(command);
    const ProgramResult result = command == std::string("prepare")
                                     ? prepare(folder.path())
                                     : run_energon({command, folder.path()});
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.out + result.err, Catch::Contains("a.tar") && Catch::Contains("6144"));
    CHECK(read_file(folder.file("a.tar.idx")) == index);
  }
}

TEST_CASE("names of tars may have commas and braces", "[cli][damage]") {
  const TempDir folder;
  const Words names = {"a,b.tar", "c{d,e}.tar", "f-{0..1}.tar", "g.tar"};
  Words command = {"run", "--mode", "val"};
  for (const std::string& name : names) {
    const std::string key = name.substr(0, 1);
    command.push_back(folder.write(name, three_samples(key).end().text()));
  }
  const ProgramResult result = run_energon(command);
  INFO(result.err);
  CHECK(result.exit_code == 0);
  for (const char* key : {"a1", "c2", "f3", "g1"}) {
    CHECK_THAT(result.out, Catch::Contains(key));
  }
}
