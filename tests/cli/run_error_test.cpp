// A run with --save-to writes its state, however it ends.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"

using energon::testing::kTens;
using energon::testing::ProgramResult;
using energon::testing::run_energon;
using energon::testing::run_lines;
using energon::testing::RunningProgram;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;
using energon::testing::operator+;
using energon::testing::Words;

namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Changes the file in place, so that a program that has it open sees the change.
void write_over(const std::string& path, const std::string& content) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file << content;
}

Words lines_of(const std::string& text) {
  Words lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

// All lines that a program printed: those that were read before, and the rest.
struct Ended {
  ProgramResult result;
  Words lines;
};

template <class End>
Ended end_after(std::size_t count, const Words& arguments, const End& end) {
  RunningProgram program(arguments);
  Ended ended;
  for (std::size_t i = 0; i < count; ++i) {
    ended.lines.push_back(program.read_line());
  }
  end(program);
  ended.result = program.finish();
  ended.lines = ended.lines + lines_of(ended.result.out);
  return ended;
}

// The children of `pid`, of all its threads.
std::vector<int> children_of(int pid) {
  std::vector<int> children;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    std::ifstream list(task.path() / "children");
    for (int child = 0; list >> child;) {
      children.push_back(child);
    }
  }
  return children;
}

// The run from `saved` continues where `ended` ended, as if nothing had happened.
void check_goes_on(const std::string& path, const Words& flags, const Ended& ended,
                   const Words& saved) {
  const std::string all = std::to_string(ended.lines.size() + 20);
  const Words whole = run_lines(path, flags + Words{"--limit", all});
  CHECK(ended.lines + run_lines(path, flags + saved + Words{"--limit", "20"}) == whole);
}

}  // namespace

TEST_CASE("a run that an error ends writes its state", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "2");
  const Words flags = {"--num-workers", workers, "--batch-size", "3", "--shuffle-buffer-size", "9"};
  const std::string state = folder.file("state");
  const std::string shard = folder.file("shard-003.tar");
  const std::string content = content_of(shard);
  const Ended ended =
      end_after(5, Words{"run", folder.path()} + flags + Words{"--save-to", state},
                [&](RunningProgram&) { write_over(shard, std::string(content.size(), 'x')); });
  CHECK(ended.result.exit_code == 1);
  CHECK_THAT(ended.result.err,
             Catch::Contains("energon: error: ") && Catch::Contains("shard-003.tar") &&
                 Catch::Contains(fmt::format("failed after {} batches", ended.lines.size())));
  write_over(shard, content);
  check_goes_on(folder.path(), flags, ended, {"--restore-from", state});
}

TEST_CASE("a run whose worker is killed writes its state", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const Words flags = {"--num-workers", "2"};
  const std::string state = folder.file("state");
  const Ended ended =
      end_after(5, Words{"run", folder.path()} + flags + Words{"--save-to", state},
                [](RunningProgram& program) {
                  const std::vector<int> servers = children_of(program.pid());
                  REQUIRE(servers.size() == 1);
                  REQUIRE(children_of(servers.front()).size() == 2);
                  REQUIRE(::kill(children_of(servers.front()).back(), SIGKILL) == 0);
                });
  CHECK(ended.result.exit_code == 1);
  CHECK_THAT(ended.result.err, Catch::Contains("SIGKILL"));
  check_goes_on(folder.path(), flags, ended, {"--restore-from", state});
}

TEST_CASE("a run that a signal ends writes its state", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "2");
  const int signal = GENERATE(SIGTERM, SIGINT, SIGHUP);
  const Words flags = {"--num-workers", workers};
  const std::string state = folder.file("state");
  const Ended ended = end_after(5, Words{"run", folder.path()} + flags + Words{"--save-to", state},
                                [&](RunningProgram& program) { program.send_signal(signal); });
  CHECK(ended.result.exit_code == 128 + signal);
  CHECK_THAT(ended.result.err, Catch::Contains("interrupted after"));
  check_goes_on(folder.path(), flags, ended, {"--restore-from", state});
}

TEST_CASE("a signal ends a run that waits for a stopped worker", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const Words flags = {"--num-workers", "1", "--prefetch-factor", "2"};
  const std::string state = folder.file("state");
  std::chrono::steady_clock::time_point begin;
  const Ended ended = end_after(
      5, Words{"run", folder.path()} + flags + Words{"--save-to", state},
      [&begin](RunningProgram& program) {
        const std::vector<int> servers = children_of(program.pid());
        REQUIRE(servers.size() == 1);
        REQUIRE(children_of(servers.front()).size() == 1);
        REQUIRE(::kill(children_of(servers.front()).front(), SIGSTOP) == 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(500));  // takes what is queued
        begin = std::chrono::steady_clock::now();
        program.send_signal(SIGINT);
      });
  CHECK(ended.result.exit_code == 130);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));  // of 30 at most
  CHECK_THAT(ended.result.err, Catch::Contains("interrupted after"));
  check_goes_on(folder.path(), flags, ended, {"--restore-from", state});
}

TEST_CASE("a run of one rank with --auto-save writes a last checkpoint when it ends early",
          "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const Words flags = {"--num-workers", "2"};
  const Words saving = {"--auto-save", folder.file("saved"), "--every", "100000"};
  const Ended ended = end_after(5, Words{"run", folder.path()} + flags + saving,
                                [](RunningProgram& program) { program.send_signal(SIGTERM); });
  CHECK(ended.result.exit_code == 128 + SIGTERM);
  check_goes_on(folder.path(), flags, ended, saving);
}

TEST_CASE("run --save-to alone saves at the end, and with --save-after after N batches",
          "[cli][run]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string state = folder.file("state");
  const Words whole = run_lines(folder.path(), {"--limit", "40"});
  run_lines(folder.path(), {"--limit", "15", "--save-to", state});
  CHECK(run_lines(folder.path(), {"--limit", "25", "--restore-from", state}) ==
        Words(whole.begin() + 15, whole.end()));
  const Ended ended = end_after(12, {"run", folder.path(), "--save-after", "7", "--save-to", state},
                                [](RunningProgram& program) { program.send_signal(SIGTERM); });
  CHECK(ended.result.exit_code == 128 + SIGTERM);
  CHECK(run_lines(folder.path(), {"--limit", "33", "--restore-from", state}) ==
        Words(whole.begin() + 7, whole.end()));
  const ProgramResult refused = run_energon({"run", folder.path(), "--save-after", "3"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Catch::Contains("--save-to"));
}

TEST_CASE("run accepts limits of shared memory with units", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, {40}, 200'000);
  const Words batches = {"run", folder.path(), "--num-workers", "1", "--batch-size", "10"};
  const ProgramResult small = run_energon(batches + Words{"--arena-limit-bytes", "1MiB"});
  CHECK(small.exit_code == 1);
  CHECK_THAT(small.err, Catch::Contains("limit 1048576 bytes") &&
                            Catch::Contains("raise --arena-limit-bytes"));
  CHECK(run_energon(batches + Words{"--arena-limit-bytes", "64MiB", "--mode", "val"}).exit_code ==
        0);

  std::string lines;
  for (int i = 0; i < 100'000; ++i) {
    lines += "{}\n";
  }
  const Words states = {"run",
                        folder.write("a.jsonl", lines),
                        "--limit",
                        "5",
                        "--checkpoint-every-batches",
                        "1",
                        "--num-workers",
                        "1",
                        "--shuffle-buffer-size",
                        "1000000"};
  const ProgramResult slot = run_energon(states + Words{"--checkpoint-slot-bytes", "1048576"});
  CHECK(slot.exit_code == 1);
  CHECK_THAT(slot.err, Catch::Contains("its slot of 1048576 bytes") &&
                           Catch::Contains("raise --checkpoint-slot-bytes"));
  CHECK(run_energon(states + Words{"--checkpoint-slot-bytes", "8MiB"}).exit_code == 0);
}

TEST_CASE("no state counts batches as delivered that nobody could read", "[cli][run]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string state = folder.file("state");
  RunningProgram program({"run", folder.path(), "--save-to", state});
  program.read_line();
  program.close_output();
  const ProgramResult result = program.finish();
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.err, Catch::Contains("the state was not written"));
  CHECK_FALSE(std::filesystem::exists(state));
}
