// energon checkpoint and run on several layouts, as a user calls them.

#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"

using energon::testing::json_lines;
using energon::testing::keys_of;
using energon::testing::kTens;
using energon::testing::run_energon;
using energon::testing::run_lines;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;
using energon::testing::operator+;
using energon::testing::Words;

namespace {

// A dataset, and a job of two ranks that was saved after 5 batches each.
struct SavedJob {
  SavedJob() {
    write_numbered_shards(data, kTens);
    for (const std::string rank : {"0", "1"}) {
      files.push_back(states.file("rank" + rank + ".state"));
      run_lines(data.path(), flags + Words{"--world-size", "2", "--rank", rank, "--limit", "5",
                                           "--save-after", "5", "--save-to", files.back()});
    }
    job = states.file("job.state");
    REQUIRE(run_energon(Words{"checkpoint", "merge", "--output", job} + files).exit_code == 0);
  }

  TempDir data;
  TempDir states;
  const Words flags = {"--logical-shards", "6", "--batch-size", "2", "--shuffle-buffer-size", "5"};
  Words files;
  std::string job;
};

std::string text_of(const std::string& path) {
  return energon::read_file(path, std::uint64_t{1} << 20);
}

}  // namespace

TEST_CASE("a job that was rescaled on the command line continues its stream",
          "[cli][checkpoint][fork]") {
  const SavedJob saved;
  const Words whole = keys_of(run_lines(saved.data.path(), saved.flags + Words{"--limit", "40"}));
  const std::string rescaled = saved.states.file("rescaled.state");
  const auto result = run_energon({"checkpoint", "rescale", saved.job, "--world-size", "3",
                                   "--num-workers", "2", "--output", rescaled});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("--world-size 3 --num-workers 2 --logical-shards 6"));
  // 10 micro batches are over: the first one is that of rank 10 mod 3, and they have 2 keys each.
  std::vector<Words> ranks;
  for (const std::string rank : {"0", "1", "2"}) {
    ranks.push_back(keys_of(run_lines(
        saved.data.path(), saved.flags + Words{"--world-size", "3", "--rank", rank, "--num-workers",
                                               "2", "--limit", "10", "--restore-from", rescaled})));
  }
  Words found;
  for (std::size_t i = 0; i < 30; ++i) {
    const Words& rank = ranks[(10 + i) % 3];
    found.push_back(rank[2 * (i / 3)]);
    found.push_back(rank[2 * (i / 3) + 1]);
  }
  CHECK(found == Words(whole.begin() + 20, whole.end()));
}

TEST_CASE("run restores a rank from the file of its job", "[cli][checkpoint][fork]") {
  const SavedJob saved;
  const Words flags =
      saved.flags + Words{"--world-size", "2", "--rank", "1", "--limit", "8", "--restore-from"};
  CHECK(run_lines(saved.data.path(), flags + Words{saved.job}) ==
        run_lines(saved.data.path(), flags + Words{saved.files[1]}));
  const auto third =
      run_energon(Words{"run", saved.data.path()} + saved.flags +
                  Words{"--world-size", "3", "--rank", "2", "--restore-from", saved.job});
  CHECK(third.exit_code == 1);
  CHECK_THAT(third.err, Catch::Contains("a job of 2 ranks") && Catch::Contains("rescale"));
}

TEST_CASE("certificates of two layouts are equal", "[cli][checkpoint][fork]") {
  const SavedJob saved;
  const std::string alone = saved.states.file("alone.state");
  const Words lines =
      run_lines(saved.data.path(), saved.flags + Words{"--limit", "10", "--certificate",
                                                       "--save-after", "10", "--save-to", alone});
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  CHECK(json_lines(text).back().at("certificate").get<std::string>().size() == 16);
  const auto certificate = [](const std::string& file) {
    const auto result = run_energon({"checkpoint", "show", file, "--json"});
    return nlohmann::json::parse(result.out).at("certificate").get<std::string>();
  };
  CHECK(certificate(alone) == certificate(saved.job));
  CHECK(certificate(saved.files[0]) != certificate(saved.files[1]));
}

TEST_CASE("merge refuses missing ranks, duplicate ranks, and ranks at other steps",
          "[cli][checkpoint][fork]") {
  const SavedJob saved;
  const std::string output = saved.states.file("other.state");
  const auto refused = [&](const Words& files) {
    const auto result = run_energon(Words{"checkpoint", "merge", "--output", output} + files);
    CHECK(result.exit_code == 1);
    return result.err;
  };
  CHECK_THAT(refused({saved.files[1]}), Catch::Contains("missing: 0"));
  CHECK_THAT(refused({saved.files[0], saved.files[0], saved.files[1]}),
             Catch::Contains("rank 0 occurs 2 times"));
  CHECK_THAT(refused({saved.job, saved.files[0]}), Catch::Contains("whole job"));
}

TEST_CASE("verify and diff report what is wrong", "[cli][checkpoint][fork]") {
  const SavedJob saved;
  CHECK(run_energon({"checkpoint", "verify", saved.job, saved.data.path()}).exit_code == 0);
  CHECK(run_energon({"checkpoint", "diff", saved.job, saved.job}).exit_code == 0);

  const auto ranks = run_energon({"checkpoint", "diff", saved.files[0], saved.files[1]});
  CHECK(ranks.exit_code == 1);
  CHECK_THAT(ranks.out, Catch::Contains("state.config.rank: 0, expected 1"));

  const TempDir other;
  write_numbered_shards(other, {10, 10});
  const auto foreign = run_energon({"checkpoint", "verify", saved.job, other.path()});
  CHECK(foreign.exit_code == 1);
  CHECK_THAT(foreign.out, Catch::Contains("data[0]"));

  std::string bytes = text_of(saved.job);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  const auto flipped =
      run_energon({"checkpoint", "verify", saved.states.write("flipped.state", bytes)});
  CHECK(flipped.exit_code == 1);
  CHECK_THAT(flipped.err, Catch::Contains("flipped.state") && Catch::Contains("checksum"));
}

TEST_CASE("diff and verify print the place of a difference, not all content",
          "[cli][checkpoint][fork]") {
  const SavedJob saved;
  const std::string rescaled = saved.states.file("rescaled.state");
  REQUIRE(run_energon({"checkpoint", "rescale", saved.job, "--world-size", "3", "--num-workers",
                       "1", "--output", rescaled})
              .exit_code == 0);
  const TempDir many;
  write_numbered_shards(many, std::vector<std::int64_t>(60, 1));
  const auto layouts = run_energon({"checkpoint", "diff", saved.job, rescaled});
  CHECK_THAT(layouts.out, Catch::Contains("state.ranks: 2 entries, expected 3\n"));
  CHECK_THAT(layouts.out, Catch::Contains("state.config.world_size: 2, expected 3\n"));
  const auto data = run_energon({"checkpoint", "verify", saved.job, many.path()});
  CHECK_THAT(data.out, Catch::Contains(": 6 entries, expected 60\n"));
  for (const auto& result : {layouts, data}) {
    CHECK(result.exit_code == 1);
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(line.size() < 300);
    }
  }
}

TEST_CASE("rescale prints the length of virtual epochs that continues those of the job",
          "[cli][checkpoint][fork]") {
  SavedJob saved;
  const Words order = saved.flags + Words{"--virtual-epoch-length"};
  Words files;
  for (const std::string rank : {"0", "1"}) {
    files.push_back(saved.states.file("virtual" + rank + ".state"));
    run_lines(saved.data.path(),
              order + Words{"9", "--world-size", "2", "--rank", rank, "--limit", "5",
                            "--save-after", "5", "--save-to", files.back()});
  }
  const std::string rescaled = saved.states.file("virtual.state");
  const auto result =
      run_energon(Words{"checkpoint", "rescale"} + files +
                  Words{"--world-size", "3", "--num-workers", "1", "--output", rescaled});
  CHECK_THAT(result.out, Catch::Contains("--logical-shards 6 --virtual-epoch-length 6\n"));
  // 18 micro batches of the job are one epoch, and 10 of them are over.
  std::size_t rest = 0;
  for (const std::string rank : {"0", "1", "2"}) {
    rest += run_lines(saved.data.path(),
                      order + Words{"6", "--world-size", "3", "--rank", rank, "--num-workers", "1",
                                    "--epochs", "1", "--restore-from", rescaled})
                .size();
  }
  CHECK(rest == 8);
}

TEST_CASE("rescale refuses impossible layouts and names possible ones", "[cli][checkpoint][fork]") {
  const SavedJob saved;
  const auto refused = [&](const Words& flags) {
    const auto result = run_energon(
        Words{"checkpoint", "rescale", saved.job, "--output", saved.states.file("other.state")} +
        flags);
    CHECK(result.exit_code == 1);
    return result.err;
  };
  CHECK_THAT(refused({"--world-size", "4", "--num-workers", "0"}),
             Catch::Contains("nearest") && Catch::Contains("2, 3, 6"));
  CHECK_THAT(refused({"--world-size", "6", "--num-workers", "2"}), Catch::Contains("at most 6"));
}

TEST_CASE("which-keys and which-step agree with the output of run", "[cli][checkpoint][fork]") {
  const SavedJob saved;
  std::string text;
  for (const std::string rank : {"0", "1"}) {
    for (const std::string& line :
         run_lines(saved.data.path(),
                   saved.flags + Words{"--world-size", "2", "--rank", rank, "--limit", "5"})) {
      text += line + "\n";
    }
  }
  const auto delivered = json_lines(text);
  for (std::size_t step = 0; step < 5; ++step) {
    CAPTURE(step);
    const auto result = run_energon(
        Words{"which-keys", saved.data.path(), saved.job, std::to_string(step)} + saved.flags);
    CHECK(result.exit_code == 0);
    const auto ranks = json_lines(result.out);
    REQUIRE(ranks.size() == 2);
    CHECK(ranks[0].at("keys") == delivered[step].at("keys"));
    CHECK(ranks[1].at("keys") == delivered[5 + step].at("keys"));
  }
  const auto& batch = delivered[7];  // step 2 of rank 1
  const auto result = run_energon(
      Words{"which-step", saved.data.path(), saved.job, batch.at("keys").at(1)} + saved.flags);
  CHECK(result.exit_code == 0);
  const auto steps = json_lines(result.out);
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].at("step") == 2);
  CHECK(steps[0].at("rank") == 1);
  CHECK(steps[0].at("position") == 1);
  CHECK(steps[0].at("restore_key") == batch.at("restore_key"));

  const auto foreign =
      run_energon({"which-keys", saved.data.path(), saved.job, "0", "--batch-size", "3"});
  CHECK(foreign.exit_code == 1);
  CHECK_THAT(foreign.err, Catch::Contains("batch_size: 3, expected 2"));
}

TEST_CASE("which-step finds all samples of a key, however the path is written",
          "[cli][checkpoint][fork]") {
  const energon::testing::TempDir folder;
  energon::testing::write_prepared(folder, {.name = "a", .counts = {10}});
  energon::testing::write_prepared(folder, {.name = "b", .counts = {10}, .prefix = "b"});
  energon::testing::write_jsonl(folder, "lines.jsonl", 10);
  folder.write("both.yaml", R"(
__class__: MetadatasetV2
splits: {train: {blend: [{path: a}, {path: b}]}}
)");
  folder.write("tars/x.tar", energon::read_file(folder.file("a/parts/data-0.tar")));
  folder.write("tars/y.tar", energon::read_file(folder.file("b/parts/data-0.tar")));
  std::filesystem::create_directory_symlink(folder.file("a"), folder.file("link"));
  const std::string state = folder.file("state");
  const auto steps = [&](const std::string& path, const std::string& key) {
    const auto delivered =
        run_lines(path, {"--limit", "40", "--save-after", "40", "--save-to", state});
    std::vector<std::int64_t> expected;
    for (std::size_t i = 0; i < delivered.size(); ++i) {
      if (nlohmann::json::parse(delivered[i]).at("keys").at(0) == key) {
        expected.push_back(static_cast<std::int64_t>(i));
      }
    }
    REQUIRE(expected.size() >= 3);
    std::vector<std::int64_t> found;
    for (const auto& line : json_lines(run_energon({"which-step", path, state, key}).out)) {
      found.push_back(line.at("step"));
    }
    CHECK(found == expected);
  };
  steps(folder.file("both.yaml"), "000004");
  steps(folder.file("tars"), "000004");
  steps(folder.file("link"), "000004");
  const std::string relative = std::filesystem::relative(folder.file("lines.jsonl")).string();
  steps(relative, "4");

  const auto later = run_energon({"which-keys", relative, state, "40"});
  CHECK(later.exit_code == 0);
  CHECK_THAT(later.err, Catch::Contains("rank 0 had not delivered step 40 yet"));
}
