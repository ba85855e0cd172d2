// Jobs with automatic checkpoints that are killed at each change that their first save makes to the
// folder of checkpoints (tests/support/shared_faults).

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

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

constexpr int kEvery = 3;

const Words kOrder = {"--batch-size", "2", "--shuffle-buffer-size", "10"};

struct SaveJob {
  const TempDir& data;
  const TempDir& folder;
  int world_size;

  std::string saved() const { return folder.file("saved"); }

  Words arguments(int rank, int limit) const {
    return Words{"run",          data.path(),
                 "--limit",      std::to_string(limit),
                 "--every",      std::to_string(kEvery),
                 "--rank",       std::to_string(rank),
                 "--world-size", std::to_string(world_size),
                 "--auto-save",  saved()} +
           kOrder;
  }

  // The batches of each rank when no rank is killed.
  std::vector<Words> whole(int limit) const {
    std::vector<Words> lines;
    for (int rank = 0; rank < world_size; ++rank) {
      lines.push_back(run_lines(
          data.path(), Words{"--limit", std::to_string(limit), "--rank", std::to_string(rank),
                             "--world-size", std::to_string(world_size)} +
                           kOrder));
    }
    return lines;
  }

  // The output of each rank. The ranks run at the same time, and each must succeed.
  std::vector<Words> run(int limit) const {
    std::vector<std::unique_ptr<RunningProgram>> ranks;
    for (int rank = 0; rank < world_size; ++rank) {
      ranks.push_back(std::make_unique<RunningProgram>(arguments(rank, limit)));
    }
    std::vector<Words> lines;
    for (auto& rank : ranks) {
      Words& printed = lines.emplace_back();
      for (std::string line = rank->read_line(); !line.empty(); line = rank->read_line()) {
        printed.push_back(line);
      }
      const ProgramResult result = rank->finish();
      INFO(result.err);
      REQUIRE(result.exit_code == 0);
    }
    return lines;
  }
};

// The step at which all ranks started to print `lines`.
std::size_t beginning(const std::vector<Words>& whole, const std::vector<Words>& lines) {
  const auto first = std::find(whole[0].begin(), whole[0].end(), lines[0].at(0));
  const std::size_t step = static_cast<std::size_t>(first - whole[0].begin());
  for (std::size_t rank = 0; rank < whole.size(); ++rank) {
    CAPTURE(rank, step);
    REQUIRE(step + lines[rank].size() <= whole[rank].size());
    REQUIRE(std::equal(lines[rank].begin(), lines[rank].end(),
                       whole[rank].begin() + static_cast<std::ptrdiff_t>(step)));
  }
  return step;
}

// Runs energon and kills it at its `change`-th change to a folder, counted from the first one whose
// path contains `where`.
ProgramResult run_killed(const Words& arguments, const std::string& where, int change) {
  ::setenv("ENERGON_TEST_KILL_IN", where.c_str(), 1);
  ::setenv("ENERGON_TEST_KILL_AT", std::to_string(change).c_str(), 1);
  ::setenv("LD_PRELOAD", ENERGON_SHARED_FAULTS, 1);
  ::setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
  ProgramResult result = run_energon(arguments);
  for (const char* const name :
       {"ENERGON_TEST_KILL_IN", "ENERGON_TEST_KILL_AT", "LD_PRELOAD", "ASAN_OPTIONS"}) {
    ::unsetenv(name);
  }
  return result;
}

}  // namespace

TEST_CASE("a job that is killed anywhere in its first save continues at the next start",
          "[cli][run][fork]") {
  const auto [world_size, killed] = GENERATE(std::pair{1, 0}, std::pair{2, 0}, std::pair{2, 1});
  const TempDir data;
  write_numbered_shards(data, kTens);
  const TempDir folder;
  const SaveJob job{data, folder, world_size};
  const std::vector<Words> whole = job.whole(4 * kEvery);
  int change = 0;
  for (bool was_killed = true; was_killed;) {
    ++change;
    CAPTURE(world_size, killed, change);
    REQUIRE(change < 100);
    std::filesystem::remove_all(job.saved());
    for (int rank = 0; rank < world_size; ++rank) {
      // Ranks before the killed one have saved, those after it have only started.
      if (rank != killed) {
        const int limit = rank < killed ? kEvery : 1;
        REQUIRE(run_energon(job.arguments(rank, limit)).exit_code == 0);
      }
    }
    const std::string step = "saved/step_" + std::to_string(kEvery);
    was_killed = run_killed(job.arguments(killed, kEvery), step, change).signal == SIGKILL;
    const std::size_t second = beginning(whole, job.run(2 * kEvery));
    CHECK((second == 0 || second == kEvery));
    const std::size_t third = beginning(whole, job.run(kEvery));
    CHECK((world_size > 1 || third == second + 2 * kEvery));
  }
  CHECK(change > 5);  // otherwise the kills missed the save
}
