#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"

using energon::testing::keys_of;
using energon::testing::kTens;
using energon::testing::run_energon;
using energon::testing::run_lines;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;
using energon::testing::operator+;
using energon::testing::Words;

namespace {

Words from(const Words& lines, std::size_t begin) {
  return Words(lines.begin() + static_cast<std::ptrdiff_t>(begin), lines.end());
}

}  // namespace

TEST_CASE("a run that was saved and restored equals one that was not", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "1", "2");
  const Words flags = {"--num-workers",         workers, "--batch-size", "3",
                       "--shuffle-buffer-size", "10",    "--epochs",     "2"};
  const Words whole = run_lines(folder.path(), flags);
  // Before the first batch, in both epochs, after the last.
  for (const std::size_t k : {std::size_t{0}, std::size_t{7}, whole.size() - 5, whole.size()}) {
    INFO("saved after " << k);
    const std::string state = folder.file("state");
    CHECK(run_lines(folder.path(),
                    flags + Words{"--save-after", std::to_string(k), "--save-to", state}) == whole);
    CHECK(run_lines(folder.path(), flags + Words{"--restore-from", state}) == from(whole, k));
  }
}

TEST_CASE("a rewound run prints the same lines again", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "2");
  const Words flags = {"--num-workers",         workers, "--batch-size", "3",
                       "--shuffle-buffer-size", "10",    "--epochs",     "2"};
  const Words whole = run_lines(folder.path(), flags);
  for (const auto& [after, to] : {std::pair<std::size_t, std::size_t>{0, 0},
                                  {5, 5},
                                  {7, 2},
                                  {whole.size() - 3, 4},
                                  {whole.size() - 1, 0}}) {
    INFO("after " << after << " to " << to);
    Words expected(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(after));
    expected = expected + from(whole, to);
    CHECK(run_lines(folder.path(), flags + Words{"--rewind-after", std::to_string(after),
                                                 "--rewind-to", std::to_string(to)}) == expected);
  }
  const auto refused =
      run_energon(Words{"run", folder.path()} + flags +
                  Words{"--rewind-after", "9", "--rewind-to", "3", "--checkpoint-history", "4"});
  CHECK(refused.exit_code != 0);
  CHECK_THAT(refused.err, Catch::Contains("the earliest one is after 5 batches") &&
                              Catch::Contains("--checkpoint-history (4 batches)"));
  CHECK_THAT(run_energon({"run", folder.path(), "--rewind-after", "9"}).err,
             Catch::Contains("--rewind-after and --rewind-to belong together"));
  for (const auto& [words, problem] : std::vector<std::pair<Words, std::string>>{
           {{"--rewind-after", "3", "--rewind-to", "7"}, "can only go back"},
           {{"--rewind-after", "3", "--rewind-to", "1", "--limit", "2"}, "is never reached"}}) {
    CAPTURE(problem);
    const auto wrong = run_energon(Words{"run", folder.path()} + words);
    CHECK(wrong.exit_code == 2);
    CHECK(wrong.out.empty());
    CHECK_THAT(wrong.err, Catch::Contains(problem));
  }
}

TEST_CASE("a state saved after the end restores to the end", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "2");
  const std::string state = folder.file("state");
  const Words flags = {"--num-workers", workers, "--epochs", "1"};
  const auto result =
      run_energon(Words{"run", folder.path(), "--save-after", "1000", "--save-to", state} + flags);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.err, Catch::Contains("the stream ended after 55 batches"));
  CHECK(run_lines(folder.path(), flags + Words{"--restore-from", state}).empty());
  const Words two = {"--num-workers", workers, "--epochs", "2"};
  CHECK(run_lines(folder.path(), two + Words{"--restore-from", state}) ==
        from(run_lines(folder.path(), two), 55));
}

TEST_CASE("a restored run may be saved again", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "2");
  const Words flags = {"--num-workers", workers, "--checkpoint-every-batches", "4"};
  const Words whole = run_lines(folder.path(), flags + Words{"--limit", "60"});
  const std::string first = folder.file("first");
  const std::string second = folder.file("second");
  run_lines(folder.path(),
            flags + Words{"--limit", "12", "--save-after", "10", "--save-to", first});
  run_lines(folder.path(), flags + Words{"--limit", "9", "--save-after", "7", "--save-to", second,
                                         "--restore-from", first});
  const Words rest =
      run_lines(folder.path(), flags + Words{"--limit", "43", "--restore-from", second});
  CHECK(rest == from(whole, 17));
  CHECK(nlohmann::json::parse(rest.at(0)).at("index") == 17);
}

TEST_CASE("virtual epochs are resumed", "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "2");
  const Words flags = {"--num-workers", workers, "--virtual-epoch-length", "10", "--epochs", "4"};
  const Words whole = run_lines(folder.path(), flags);
  REQUIRE(whole.size() == 40);
  const std::string state = folder.file("state");
  run_lines(folder.path(), flags + Words{"--save-after", "23", "--save-to", state});
  CHECK(run_lines(folder.path(), flags + Words{"--restore-from", state}) == from(whole, 23));
}

TEST_CASE("states that belong to something else are refused", "[cli][run]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string state = folder.file("state");
  run_lines(folder.path(), {"--limit", "3", "--save-after", "3", "--save-to", state});
  const auto refused = [&](const std::string& path, const Words& flags, const std::string& reason) {
    const auto result =
        run_energon(Words{"run", path, "--limit", "1", "--restore-from", state} + flags);
    CHECK(result.exit_code == 1);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Catch::StartsWith("energon: error: ") && Catch::Contains(reason));
  };
  refused(folder.path(), {"--seed-offset", "7"}, "seed");
  refused(folder.path(), {"--world-size", "2"}, "world");
  const TempDir other;
  write_numbered_shards(other, {10, 10});
  refused(other.path(), {}, "shards");
  folder.write("state", "no state at all");
  refused(folder.path(), {}, "not a saved loader state");
}

TEST_CASE("checkpoint show prints what a state contains", "[cli][checkpoint]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string state = folder.file("state");
  run_lines(folder.path(),
            {"--limit", "3", "--batch-size", "4", "--save-after", "2", "--save-to", state});
  const auto text = run_energon({"checkpoint", "show", state});
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out,
             Catch::Contains("2 batches of this rank") && Catch::Contains("batch size:  4"));
  const auto json = run_energon({"checkpoint", "show", state, "--json"});
  CHECK(json.exit_code == 0);
  CHECK(nlohmann::json::parse(json.out).at("batch_index") == 2);
}

TEST_CASE("a state saved at the end of a virtual epoch continues with the next one",
          "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "2");
  const std::string state = folder.file("state");
  const Words flags = {"--num-workers", workers, "--virtual-epoch-length", "5"};
  const Words whole = run_lines(folder.path(), flags + Words{"--limit", "12"});
  run_lines(folder.path(), flags + Words{"--limit", "5", "--save-after", "5", "--save-to", state});
  CHECK(run_lines(folder.path(), flags + Words{"--restore-from", state, "--limit", "7"}) ==
        from(whole, 5));
}

TEST_CASE("IBM-22 runs of three ranks with automatic checkpoints continue from their folder",
          "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "2");
  const std::string saved = folder.file("saved");
  const auto flags = [&](int rank) {
    return Words{"--num-workers",         workers, "--batch-size", "3",
                 "--world-size",          "3",     "--rank",       std::to_string(rank),
                 "--shuffle-buffer-size", "10"};
  };
  for (int rank = 0; rank < 3; ++rank) {
    run_lines(folder.path(),
              flags(rank) + Words{"--auto-save", saved, "--every", "10", "--limit", "25"});
  }
  for (int rank = 0; rank < 3; ++rank) {
    CAPTURE(rank);
    const Words expected = from(run_lines(folder.path(), flags(rank) + Words{"--limit", "40"}), 20);
    CHECK(run_lines(folder.path(), flags(rank) + Words{"--auto-save", saved, "--every", "1000",
                                                       "--limit", "20"}) == expected);
    CHECK(run_lines(folder.path(),
                    flags(rank) + Words{"--auto-save", folder.file("other"), "--every", "1000",
                                        "--load-from", saved, "--limit", "20"}) == expected);
  }
  // Rank 1 does not start elsewhere by itself.
  folder.write("saved/step_20/rank_1.state", "half");
  const auto save = [&](int rank, const Words& more) {
    return run_energon(Words{"run", folder.path()} + flags(rank) +
                       Words{"--auto-save", saved, "--every", "7", "--limit", "1"} + more);
  };
  const auto refused = save(1, {});
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Catch::Contains("the checkpoint of step 20 is complete, but rank 1") &&
                              Catch::Contains("--at-step") &&
                              Catch::Contains("checkpoints of these steps are complete: 10"));
  CHECK(nlohmann::json::parse(save(1, {"--at-step", "10"}).out).at("index") == 10);
  const auto after = save(0, {});
  CHECK(nlohmann::json::parse(after.out).at("index") == 10);
  CHECK_THAT(after.err, Catch::Contains("warning: ignored an unusable checkpoint: ") &&
                            Catch::Contains("step_20: the run went back to step 10"));
  CHECK(nlohmann::json::parse(save(0, {"--start-over"}).out).at("index") == 0);
  const auto none = save(1, {});
  CHECK(none.exit_code == 1);
  CHECK_THAT(none.err,
             Catch::Contains("none can be continued from") && Catch::Contains("--start-over"));
}

TEST_CASE("a killed run with automatic checkpoints continues from its checkpoint",
          "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::string workers = GENERATE("0", "2");
  const Words flags = {"--num-workers", workers};
  const std::string saved = folder.file("saved");
  const Words saving = flags + Words{"--auto-save", saved, "--every", "50", "--keep", "1"};
  const Words whole = run_lines(folder.path(), flags + Words{"--limit", "1000"});
  energon::testing::RunningProgram program(Words{"run", folder.path()} + saving);
  Words lines;
  for (int i = 0; i < 400; ++i) {
    lines.push_back(program.read_line());
  }
  program.send_signal(SIGKILL);
  program.finish();
  CHECK(lines == Words(whole.begin(), whole.begin() + 400));
  const Words rest = run_lines(folder.path(), saving + Words{"--limit", "20"});
  const auto index = nlohmann::json::parse(rest.front()).at("index").get<std::size_t>();
  CHECK(index % 50 == 0);
  CHECK(index >= 350);  // what was printed after the checkpoint is printed again
  CHECK(rest == from(run_lines(folder.path(), flags + Words{"--limit", std::to_string(index + 20)}),
                     index));
}

TEST_CASE("a run that completes an unusable checkpoint warns", "[cli][run]") {
  const TempDir folder;
  write_numbered_shards(folder, {5, 4});  // an epoch of rank 0 has a batch more than one of rank 1
  const std::string saved = folder.file("saved");
  const auto save = [&](const std::string& rank) {
    return run_energon({"run", folder.path(), "--world-size", "2", "--rank", rank, "--num-workers",
                        "0", "--epochs", "2", "--auto-save", saved, "--every", "2"});
  };
  CHECK(save("0").err.empty());
  const auto last = save("1");
  CHECK(last.exit_code == 0);
  const auto warning = [&](const std::string& step) {
    return fmt::format(
        "energon: warning: the checkpoint of step {0} is unusable, no run can resume from it: "
        "{1}/step_{0}: these states do not belong to one job at one step:\n"
        "  different steps of epoch 1",
        step, saved);
  };
  const std::string text = last.err;
  CHECK_THAT(text, Catch::StartsWith(warning("6")) && Catch::Contains("\n" + warning("8")));
  CHECK(text.find(warning("6")) == text.rfind(warning("6")));
  CHECK_THAT(text, !Catch::Contains("step_2") && !Catch::Contains("\\x0a"));
}

TEST_CASE("a job with automatic checkpoints names the flags that it needs with other workers",
          "[cli][run][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const Words saving = {"--batch-size", "2", "--auto-save", folder.file("saved"), "--every", "2"};
  const Words whole =
      run_lines(folder.path(), {"--batch-size", "2", "--num-workers", "2", "--limit", "9"});
  run_lines(folder.path(), saving + Words{"--num-workers", "2", "--limit", "5"});
  const auto refused = run_energon(Words{"run", folder.path(), "--num-workers", "1"} + saving);
  CHECK(refused.exit_code == 1);
  const std::string flags = "--logical-shards 2 --division energon";
  CHECK_THAT(refused.err, Catch::Contains("the job has 2 logical shards, the loader 1") &&
                              Catch::Contains("division = kEnergon") &&
                              Catch::Contains("(energon run: " + flags + ")") &&
                              Catch::Contains("step_4"));
  const Words rest =
      run_lines(folder.path(), saving + Words{"--num-workers", "1", "--limit", "5",
                                              "--logical-shards", "2", "--division", "energon"});
  CHECK(keys_of(rest) == keys_of(from(whole, 4)));
}

TEST_CASE("contradicting options of automatic checkpoints are refused", "[cli][run]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const auto refused = [&](const Words& flags, const std::string& reason) {
    const auto result = run_energon(Words{"run", folder.path()} + flags);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Catch::Contains(reason));
  };
  refused({"--auto-save", folder.file("a")}, "--every");
  refused({"--every", "10"}, "--auto-save");
  refused({"--keep", "2"}, "--auto-save");
  refused({"--load-from", folder.file("a")}, "--auto-save");
  refused({"--auto-save", folder.file("a"), "--every", "10", "--restore-from", folder.file("b")},
          "--load-from");
  refused({"--auto-save", folder.file("a"), "--every", "0"}, "--every");
}
