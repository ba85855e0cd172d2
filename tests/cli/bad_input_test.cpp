#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/file_size_limit.h"

using energon::testing::kTens;
using energon::testing::operator+;
using energon::testing::run_energon;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;
using Words = std::vector<std::string>;

namespace {

// One clear message on stderr, nothing on stdout, the right exit code.
void check_refused(const Words& words, int exit_code, const std::string& reason) {
  const auto result = run_energon(words);
  INFO(fmt::format("energon {}\n{}", fmt::join(words, " "), result.err));
  CHECK(result.exit_code == exit_code);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Catch::StartsWith("energon: error: ") && Catch::Contains(reason));
}

}  // namespace

TEST_CASE("a wrong command line is a usage error", "[cli]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string path = folder.path();
  check_refused({}, 2, "subcommand");
  check_refused({"frobnicate"}, 2, "unknown command 'frobnicate'");
  check_refused({"run"}, 2, "PATH");
  check_refused({"run", path, "--frobnicate"}, 2, "--frobnicate");
  check_refused({"run", path, "--num-workers", "two"}, 2, "two");
  check_refused({"run", path, "--num-workers", "-1"}, 2, "num-workers");
  check_refused({"run", path, "--batch-size", "0"}, 2, "batch-size");
  check_refused({"run", path, "--mode", "test"}, 2, "test");
  check_refused({"run", path, "--mode", "0"}, 2, "mode");
  check_refused({"run", path, "--shuffle-over-epochs", "sometimes"}, 2, "sometimes");
  check_refused({"run", path, "--shuffle-over-epochs", "0"}, 2, "shuffle-over-epochs");
  check_refused({"run", path, "--shuffle-over-epochs", "-1", "--epochs", "1"}, 2, "never ends");
  for (const std::string command : {"run", "bench"}) {
    check_refused({command, path, "--epochs", "1", "--epoch-policy", "loop"}, 2, "never end");
  }
  check_refused({"run", path, "--mode", "val", "--shuffle-buffer-size", "9"}, 2, "--mode train");
  check_refused({"run", path, "--save-after", "3"}, 2, "--save-to");
  check_refused({"run", path, "--save-after", "3", "--save-to", "x", "--limit", "2"}, 2, "--limit");
  check_refused({"run", path, "--verify-checksums", "maybe"}, 2, "maybe");
  check_refused({"run", path, "--rank", "2", "--world-size", "2"}, 2, "from 0 to 1");
  check_refused({"run", path, "--prefetch-factor", "1000000000"}, 2, "--prefetch-factor");
  check_refused({"run", path, "--batchsize", "3"}, 2, "did you mean --batch-size?");
  check_refused({"run", path, "--mode", "val", "--no-repeat", "--parallel-slices", "4"}, 2,
                "--parallel-slices, --no-repeat are only for --mode train");
  check_refused({"run", path, "--batch-size", "none"}, 2, "found 'none'");
  check_refused({"run", path, "--arena-limit-bytes", "2GB"}, 2,
                "--arena-limit-bytes: expected a size in bytes, such as 4096 or 512MiB, from 1 to "
                "1TiB, found '2GB'");
  for (const std::string value : {"nan", "inf", "-inf", "-1", "1e999", "5 s"}) {
    check_refused({"run", path, "--timeout", value}, 2,
                  fmt::format("--timeout: expected seconds from 1ms to 1000000000s, with a unit as "
                              "in 500ms or 2h, or none, found '{}'",
                              value));
    check_refused({"bench", path, "--seconds", value}, 2, "is not a number of seconds");
    check_refused({"prepare", path, "--split-ratio", "8,1," + value}, 2,
                  "three non-negative numbers");
  }
  check_refused({"bench"}, 2, "specify PATH");
  check_refused({"bench", path, "--any-settings"}, 2, "--compare");
  check_refused({"bench", path, "--limit", "0"}, 2, "--limit: '0'");
  check_refused({"bench", "--compare", "a.json"}, 2, "--compare");
  check_refused({"bench", path, "--json", path + "/no/x.json"}, 1, "does not exist");
  check_refused({"run", path, "--timeout", "0"}, 2, "found '0'");
  check_refused({"bench", path, "--seconds", "1e10"}, 2, "'1e10' is not a number of seconds");
  check_refused({"run", path, "--world-size", "2147483647"}, 1, "--world-size");
  // As from an unset shell variable.
  for (const std::string option :
       {"--restore-from", "--save-to", "--debug-log", "--quarantine", "--auto-save"}) {
    check_refused({"run", path, "--limit", "1", option, ""}, 2, option + ": the value is empty");
  }
  check_refused({"run", path, "--save-every", "5"}, 2, "unknown option --save-every");
  check_refused({"run", "--save-every", "5", path}, 2, "unknown option --save-every");
  check_refused({"checkpoint", "show", path, "--jsonn"}, 2,
                "unknown option --jsonn; did you mean --json?");
  check_refused({"run", path, "x"}, 2, "each must be a tar");
  check_refused({"prepare", path, "--split-ratio", "0,0,0"}, 2, "three non-negative numbers");
  check_refused({"prepare", path, "--split-ratio", "8,-1,1"}, 2, "three non-negative numbers");
  check_refused({"prepare", path, "--split-ratio", "8,1"}, 2, "three non-negative numbers");
  check_refused({"prepare", path, "--split-ratio", "8,1,x"}, 2, "three non-negative numbers");
  check_refused({"prepare", path, "--split-parts", "train"}, 2, "NAME:REGEX");
  check_refused({"get", path}, 2, "KEY");
  check_refused({"get", path, "a", "--restore-key", "b"}, 2, "either KEY");
  check_refused({"checkpoint"}, 2, "subcommand");
}

TEST_CASE("errors name what does not exist", "[cli]") {
  const TempDir folder;
  const std::string missing = folder.file("missing");
  for (const std::string command : {"info", "lint", "preview", "run", "bench"}) {
    check_refused({command, missing}, 1, missing);
    check_refused({command, folder.path()}, 1, "no shards");
  }
  check_refused({"get", missing, "key"}, 1, missing);
  check_refused({"prepare", missing, "--split-ratio", "1,0,0"}, 1, missing);
  for (const char* name : {"missing.yaml", "missing.jsonl", "missing"}) {
    check_refused({"prepare", folder.file(name)}, 1, "no such file or folder");
    check_refused({"prepare", folder.file(name), "--split-ratio", "1,0,0"}, 1,
                  "no such file or folder");
  }
  check_refused({"prepare", folder.path(), "--split-ratio", "1,0,0"}, 1, "no shards");
  check_refused({"checkpoint", "show", missing}, 1, missing);
  write_numbered_shards(folder, kTens);
  check_refused({"run", folder.path(), "--restore-from", missing}, 1, missing);
  check_refused({"prepare", folder.file("shard-000.tar"), "--split-ratio", "1,0,0"}, 1,
                "not a folder");
  check_refused({"run", folder.path(), "--shuffle-over-epochs", "none", "--parallel-slices", "4"},
                1, "slices");
  // Before the first batch, not when the state is written.
  check_refused({"run", folder.path(), "--save-after", "9", "--save-to", "/proc/energon.state"}, 1,
                "--save-to cannot be written");
  check_refused({"run", folder.path(), "--save-after", "9", "--save-to", folder.path()}, 1,
                "the output is a folder");
  // Errors name flags, not the options that they set.
  check_refused({"run", folder.path(), "--world-size", "2", "--logical-shards", "5"}, 1,
                "--logical-shards is 5, which is not a multiple of --world-size 2");
  check_refused({"run", folder.path(), "--save-after", "0", "--save-to", missing + "/state"}, 1,
                missing);
}

TEST_CASE("damaged datasets are refused with the file at fault", "[cli]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  REQUIRE(run_energon({"prepare", folder.path(), "--split-ratio", "1,0,0"}).exit_code == 0);
  const auto run_refused = [&](const std::string& reason) {
    // A shard is checked at its first read, so the first batch has samples of all shards.
    check_refused({"run", folder.path(), "--batch-size", "30", "--limit", "1"}, 1, reason);
  };
  check_refused({"run", folder.path(), "--split", "tets"}, 1, "train");

  const std::string index = energon::read_file(folder.file("shard-002.tar.idx"));
  folder.write("shard-002.tar.idx", index.substr(0, index.size() / 2));
  run_refused("shard-002.tar.idx");
  folder.write("shard-002.tar.idx", index);

  const std::string shard = energon::read_file(folder.file("shard-002.tar"));
  folder.write("shard-002.tar", shard.substr(0, shard.size() / 2));
  run_refused("shard-002.tar");
  folder.write("shard-002.tar", shard);

  folder.write(".nv-meta/split.yaml", "split_parts: [1, 2");
  run_refused("split.yaml");
  folder.write(".nv-meta/.info.json", "{}");
  run_refused(".info.json");
  std::filesystem::remove(folder.file(".nv-meta/.info.json"));
  run_refused("energon prepare");
}

TEST_CASE("a rank without samples reports an error instead of waiting forever", "[cli]") {
  const TempDir folder;
  write_numbered_shards(folder, {1});
  for (const std::string command : {"run", "bench"}) {
    check_refused({command, folder.path(), "--world-size", "2", "--rank", "1"}, 1, "no samples");
  }
}

TEST_CASE("a truncated plain tar is refused with the byte offset", "[cli]") {
  const TempDir folder;
  write_numbered_shards(folder, {10});
  const std::string shard = energon::read_file(folder.file("shard-000.tar"));
  folder.write("shard-000.tar", shard.substr(0, 2 * 1024 + 513));
  check_refused({"run", folder.path(), "--limit", "1"}, 1, "byte");
}

TEST_CASE("batches before a fault are printed", "[cli]") {
  const TempDir folder;
  write_numbered_shards(folder, {10});
  REQUIRE(
      run_energon({"prepare", folder.path(), "--split-ratio", "1,0,0", "--checksums"}).exit_code ==
      0);
  std::string shard = energon::read_file(folder.file("shard-000.tar"));
  shard[5 * 1024 + 512] ^= 1;
  folder.write("shard-000.tar", shard);
  const auto result = run_energon({"run", folder.path(), "--mode", "val"});
  CHECK(result.exit_code == 1);
  CHECK(energon::testing::json_lines(result.out).size() == 5);
  CHECK_THAT(result.err, Catch::Contains("shard-000.tar") && Catch::Contains("checksum"));
}

TEST_CASE("help and version are printed on standard output", "[cli]") {
  const auto version = run_energon({"--version"});
  CHECK(version.exit_code == 0);
  CHECK_THAT(version.out, Catch::StartsWith("energon-cpp "));
  for (const Words& words : {Words{"--help"}, Words{"run", "--help"}, Words{"prepare", "-h"},
                             Words{"checkpoint", "show", "--help"}}) {
    CAPTURE(words);
    const auto help = run_energon(words);
    CHECK(help.exit_code == 0);
    CHECK(help.err.empty());
    CHECK_THAT(help.out, Catch::Contains("Usage"));
  }
  CHECK_THAT(run_energon({"run", "--help"}).out, Catch::Contains("--save-after"));
}

TEST_CASE("run has an old name, dump, which help does not show", "[cli]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const Words flags = {folder.path(), "--num-workers", "0", "--limit", "3"};
  const auto earlier = run_energon(Words{"dump"} + flags);
  CHECK(earlier.exit_code == 0);
  CHECK(energon::testing::json_lines(earlier.out).size() == 3);
  CHECK(earlier.out == run_energon(Words{"run"} + flags).out);
  check_refused({"dump"}, 2, "(see energon run --help)");
  CHECK(run_energon({"--help"}).out.find("dump") == std::string::npos);
}

TEST_CASE("samples of tars and JSONL files above --max-sample-bytes are errors", "[cli][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, {2});
  folder.write("x.jsonl", "{\"a\": 1}\n");
  for (const std::string& path : {folder.path(), folder.file("x.jsonl")}) {
    CAPTURE(path);
    CHECK(run_energon({"run", path, "--mode", "val", "--num-workers", "0"}).exit_code == 0);
    check_refused({"run", path, "--mode", "val", "--num-workers", "0", "--max-sample-bytes", "5"},
                  1, "but --max-sample-bytes is 5");
  }
}

TEST_CASE("outputs that are not files are refused at the start, devices are kept", "[cli][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, {2});
  check_refused({"run", folder.path(), "--save-after", "1", "--save-to", folder.path()}, 1,
                "the output is a folder");
  std::filesystem::create_symlink("state", folder.file("link"));
  const Words save = {"run",     folder.path(), "--num-workers", "0", "--save-after", "1",
                      "--limit", "1",           "--save-to"};
  // A device of our own, which a broken program may replace. Only the superuser can make one.
  const bool has_device = ::mknod(folder.file("null").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0;
  for (const char* target : {"link", "null"}) {
    CAPTURE(target);
    CHECK(run_energon(save + Words{folder.file(target)}).exit_code == 0);
  }
  CHECK(std::filesystem::is_symlink(folder.file("link")));
  CHECK(std::filesystem::file_size(folder.file("state")) > 0);
  CHECK(std::filesystem::is_character_file(folder.file("null")) == has_device);
}

TEST_CASE("an impossible output is refused before the work", "[cli]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const TempDir outputs;
  std::filesystem::create_symlink("circle", outputs.file("circle"));
  std::filesystem::create_symlink("missing/state", outputs.file("dangling"));
  for (const std::string& output :
       {outputs.file("circle"), outputs.file("dangling"), outputs.file(std::string(300, 'x')),
        outputs.file("no/state")}) {
    check_refused({"run", folder.path(), "--limit", "1", "--save-to", output}, 1, "output");
  }
}

TEST_CASE("a file size limit ends prepare with an error, not with a signal", "[cli]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const energon::testing::FileSizeLimit limit(4096);
  const auto result = run_energon(
      {"prepare", folder.path(), "--split-ratio", "1,0,0", "--non-interactive", "--no-progress"});
  CHECK(result.signal == 0);
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Catch::StartsWith("energon: error: "));
}
