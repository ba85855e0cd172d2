#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"

using energon::testing::keys_of;
using energon::testing::kTens;
using energon::testing::run_energon;
using energon::testing::TempDir;
using energon::testing::Words;
using energon::testing::write_numbered_shards;

namespace {

std::size_t count_files(const TempDir& folder) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    count += entry.path().empty() ? 0 : 1;
  }
  return count;
}

}  // namespace

TEST_CASE("prepare reports what it found and how it was split", "[cli][prepare]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const auto result =
      run_energon({"prepare", folder.path(), "--split-ratio", "3,2,1", "--non-interactive"});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::StartsWith("Found 6 tar files in total.\n") &&
                             Catch::Contains("part types in the dataset: txt\n") &&
                             Catch::Contains("train: 54.5%, 30 samples in 3 shards") &&
                             Catch::Contains("val: 36.4%, 20 samples in 2 shards") &&
                             Catch::Contains("test: 9.09%, 5 samples in 1 shard"));
  CHECK_THAT(result.err, Catch::Contains("100% 6/6 shards"));
  CHECK_THAT(result.err, !Catch::Contains("\r"));
  CHECK(keys_of(energon::testing::run_lines(folder.path(), {"--split", "test", "--mode", "val"}))
            .size() == 5);
}

TEST_CASE("prepare splits by pattern and leaves shards out", "[cli][prepare]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const auto result =
      run_energon({"prepare", "--split-parts", "train:shard-00[0-2].*", "--split-parts",
                   "val:shard-00[34].*", "--exclude", "005", "--no-progress", folder.path()});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, Catch::Contains("Found 5 tar files") &&
                             Catch::Contains("train: 60%, 30 samples in 3 shards") &&
                             Catch::Contains("val: 40%, 20 samples in 2 shards"));
}

TEST_CASE("prepare refuses to guess a split, and to prepare twice", "[cli][prepare]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const auto without_split = run_energon({"prepare", folder.path(), "--non-interactive"});
  CHECK(without_split.exit_code == 2);
  CHECK_THAT(without_split.err, Catch::Contains("--split-ratio"));

  const std::vector<std::string> words = {"prepare", folder.path(), "--split-ratio", "8,1,1"};
  CHECK(run_energon(words).exit_code == 0);
  const auto again = run_energon(words);
  CHECK(again.exit_code == 1);
  CHECK_THAT(again.err, Catch::Contains("--force-overwrite"));
  auto forced = words;
  forced.emplace_back("--force-overwrite");
  CHECK(run_energon(forced).exit_code == 0);
}

TEST_CASE("Ctrl-C in prepare, once or more often, leaves nothing half-written", "[cli][prepare]") {
  const int presses = GENERATE(1, 50);
  int exit_code = 0;
  int signal = 0;
  // With few shards, it may finish before it sees the signal.
  for (std::size_t count = 600; exit_code == 0 && count <= 4800; count *= 2) {
    CAPTURE(count);
    const TempDir folder;
    write_numbered_shards(folder, std::vector<std::int64_t>(count, 20));
    energon::testing::RunningProgram program(
        {"prepare", folder.path(), "--split-ratio", "1,0,0", "--num-workers", "1", "--checksums"});
    CHECK(program.read_line() == fmt::format("Found {} tar files in total.", count));
    for (int press = 0; press < presses; ++press) {
      program.send_signal(SIGINT);
    }
    const auto result = program.finish();
    exit_code = result.exit_code;
    signal = result.signal;
    CHECK((exit_code == 0 || count_files(folder) == count));
  }
  // A late signal may end it after everything was removed.
  CHECK((exit_code == 130 || (presses > 1 && signal == SIGINT)));
}

TEST_CASE("prepare names the shard and the byte of a fault", "[cli][prepare]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string shard = energon::read_file(folder.file("shard-002.tar"));
  folder.write("shard-002.tar", shard.substr(0, 3 * 512 + 100));
  const auto result = run_energon({"prepare", folder.path(), "--split-ratio", "1,0,0"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Catch::Contains("shard-002.tar") && Catch::Contains("byte"));
  CHECK(count_files(folder) == 6);
}

TEST_CASE("prepare --update scans only the shards that were added", "[cli][prepare]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const Words prepare = {"prepare",  folder.path(),   "--split-ratio",    "1,0,0",
                         "--update", "--no-progress", "--non-interactive"};
  Words without_last = prepare;
  without_last.insert(without_last.end(), {"--exclude", "005"});
  auto result = run_energon(without_last);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, !Catch::Contains("unchanged"));
  result = run_energon(prepare);
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK_THAT(
      result.out,
      Catch::Contains("Prepared 55 samples") &&
          Catch::Contains("Kept the index of 5 shards, unchanged since the earlier prepare"));
  CHECK(keys_of(energon::testing::run_lines(folder.path(), {"--mode", "val"})).size() == 55);
  Words both = prepare;
  both.push_back("--force-overwrite");
  CHECK(run_energon(both).exit_code == 2);
}
