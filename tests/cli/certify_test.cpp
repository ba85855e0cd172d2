// energon certify: global batches of jobs on several layouts, as a user compares them.

#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file_source.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"

using energon::testing::dump;
using energon::testing::json_lines;
using energon::testing::kTens;
using energon::testing::ProgramResult;
using energon::testing::run_energon;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;
using energon::testing::operator+;
using energon::testing::Words;

namespace {

const Words kFlags = {"--logical-shards",      "8", "--batch-size", "2",
                      "--shuffle-buffer-size", "5", "--certificate"};

std::string text_of(const Words& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text;
}

// A job that changes its layout; the dumps of its ranks are files.
class MovingJob {
 public:
  explicit MovingJob(const TempDir& data) : data_(data) {}

  /// Runs all ranks from where the job was saved until `end`; saves it after `steps`.
  void run(int world_size, int workers, const Words& end, int steps) {
    const Words layout = {"--world-size", std::to_string(world_size), "--num-workers",
                          std::to_string(workers)};
    Words restore;
    if (!state_.empty()) {
      const std::string rescaled = files_.file("rescaled.state");
      REQUIRE(run_energon(Words{"checkpoint", "rescale", state_, "--output", rescaled} + layout)
                  .exit_code == 0);
      restore = {"--restore-from", rescaled};
    }
    Words states;
    for (int rank = 0; rank < world_size; ++rank) {
      const std::string name = fmt::format("{}-{}", runs_, rank);
      states.push_back(files_.file(name + ".state"));
      dumps_.push_back(files_.write(
          name + ".jsonl",
          text_of(
              dump(data_.path(), kFlags + layout + restore + end +
                                     Words{"--rank", std::to_string(rank), "--save-after",
                                           std::to_string(steps), "--save-to", states.back()}))));
    }
    state_ = files_.file(fmt::format("{}.state", runs_++));
    REQUIRE(run_energon(Words{"checkpoint", "merge", "--output", state_} + states).exit_code == 0);
  }

  const Words& dumps() const { return dumps_; }

 private:
  const TempDir& data_;
  TempDir files_;
  Words dumps_;
  std::string state_;
  int runs_ = 0;
};

ProgramResult certify(const Words& dumps, const Words& flags = {}) {
  return run_energon(Words{"certify"} + dumps + flags);
}

}  // namespace

TEST_CASE("two jobs that read the same data have the same global batches on any layouts",
          "[cli][certify][fork]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  MovingJob job(data);
  job.run(4, 2, {"--limit", "11"}, 10);  // one step more than is saved: it comes again
  job.run(2, 3, {"--limit", "13"}, 13);
  job.run(8, 1, {"--limit", "9"}, 9);  // micro batches 66 to 137
  const TempDir files;
  const auto undisturbed = [&](const Words& more) {
    return files.write("undisturbed.jsonl",
                       text_of(dump(data.path(), kFlags + Words{"--limit", "138"} + more)));
  };
  const std::string alone = undisturbed({});

  for (const Words& size : {Words{}, Words{"--global-batch", "12"}, Words{"--global-batch", "5"}}) {
    const auto expected = certify({alone}, size);
    const auto found = certify(job.dumps(), size);
    CHECK(expected.exit_code == 0);
    CHECK(found.exit_code == 0);
    CHECK(found.out == expected.out);
    CHECK_THAT(found.err, Catch::Contains("the dumps end within it"));
  }
  const auto lines = json_lines(certify({alone}, {"--global-batch", "12"}).out);
  REQUIRE(lines.size() == 11);
  CHECK(lines[10].at("epoch") == 0);
  CHECK(lines[10].at("global_batch") == 10);
  CHECK(lines[10].at("micro_batches") == 12);
  CHECK(lines[10].at("certificate").get<std::string>().size() == 16);

  const auto other =
      json_lines(certify({undisturbed({"--seed-offset", "1"})}, {"--global-batch", "12"}).out);
  REQUIRE(other.size() == 11);
  CHECK(other[0] != lines[0]);
}

TEST_CASE("a difference is found in the global batch where it is", "[cli][certify]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  Words lines = dump(data.path(), kFlags + Words{"--limit", "40"});
  const TempDir files;
  const auto certified = [&] {
    return json_lines(
        certify({files.write("dump.jsonl", text_of(lines))}, {"--global-batch", "10"}).out);
  };
  const auto expected = certified();
  REQUIRE(expected.size() == 4);
  // Micro batches 12 and 17 in each other's place.
  auto first = nlohmann::json::parse(lines[12]);
  auto second = nlohmann::json::parse(lines[17]);
  REQUIRE(first.at("micro_batch") == 12);
  REQUIRE(second.at("micro_batch") == 17);
  std::swap(first["micro_batch"], second["micro_batch"]);
  lines[12] = first.dump();
  lines[17] = second.dump();
  const auto found = certified();
  REQUIRE(found.size() == 4);
  for (std::size_t batch = 0; batch < 4; ++batch) {
    CHECK((found[batch] == expected[batch]) == (batch != 1));
  }
}

TEST_CASE("micro batches that are missing are named, after what is whole", "[cli][certify][fork]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  MovingJob job(data);
  job.run(4, 2, {"--limit", "4"}, 4);
  job.run(2, 0, {"--limit", "8"}, 8);
  const auto whole = json_lines(certify(job.dumps()).out);
  REQUIRE(whole.size() == 4);
  Words dumps = job.dumps();
  dumps.pop_back();  // rank 1 of the second layout
  const auto missing = certify(dumps);
  CHECK(missing.exit_code == 1);
  CHECK(json_lines(missing.out) == std::vector<nlohmann::json>(whole.begin(), whole.begin() + 2));
  CHECK_THAT(
      missing.err,
      Catch::Contains("7 micro batches of epoch 0 are missing: 17, 19, 21, 23, 25, 27, 29;"));
  // Without the first layout the stream begins later, at a whole global batch.
  CHECK(json_lines(certify(Words(job.dumps().begin() + 4, job.dumps().end())).out) ==
        std::vector<nlohmann::json>(whole.begin() + 2, whole.end()));
}

TEST_CASE("epochs that end unevenly are certified to their end", "[cli][certify][fork]") {
  const TempDir data;
  write_numbered_shards(data, kTens);  // 55 samples: the last of 8 logical shards has a batch less
  MovingJob job(data);
  job.run(4, 2, {"--epochs", "2", "--limit", "5"}, 5);
  job.run(2, 3, {"--epochs", "2", "--limit", "1000"}, 0);
  const TempDir files;
  const std::string alone =
      files.write("alone.jsonl", text_of(dump(data.path(), kFlags + Words{"--epochs", "2"})));
  const auto expected = certify({alone});
  CHECK(expected.exit_code == 0);
  CHECK(expected.err.empty());
  const auto lines = json_lines(expected.out);
  REQUIRE(lines.size() == 8);
  CHECK(lines[3].at("micro_batches") == 7);
  CHECK(lines[4].at("epoch") == 1);
  CHECK(lines[4].at("global_batch") == 0);
  const auto found = certify(job.dumps());
  CHECK(found.exit_code == 0);
  CHECK(found.out == expected.out);
}

TEST_CASE("a rank that has nothing left of an epoch still says that it ended",
          "[cli][certify][fork]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  MovingJob job(data);
  job.run(8, 1, {"--epochs", "2", "--limit", "4"}, 4);  // rank 7, of three, began the next
  job.run(4, 0, {"--epochs", "2", "--limit", "1000"}, 0);
  const TempDir files;
  const std::string alone =
      files.write("alone.jsonl", text_of(dump(data.path(), kFlags + Words{"--epochs", "2"})));
  CHECK(certify(job.dumps()).out == certify({alone}).out);
  const std::string end = R"({"rank":3,"end_of_epoch":%,"of_logical_shards":[3,7],)";
  const std::string rank = energon::read_file(job.dumps().back());
  for (const char* const epoch : {"0", "1"}) {
    std::string line = end;
    line.replace(line.find('%'), 1, epoch);
    CHECK_THAT(rank, Catch::Contains(line));
  }
}

TEST_CASE("files that are no such dumps are refused with the line", "[cli][certify]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  const TempDir files;
  const auto refused = [&](const std::string& text, const std::string& reason) {
    const auto result = certify({files.write("dump.jsonl", text)});
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Catch::Contains(reason));
  };
  const Words lines = dump(data.path(), kFlags + Words{"--limit", "9"});
  refused(text_of(dump(data.path(), {"--limit", "2"})), "line 1: this is no line of");
  refused(lines[0] + "\nnonsense\n" + lines[1] + "\n", "line 2: this is no line of");
  const Words more = dump(data.path(), {"--logical-shards", "4", "--limit", "1", "--certificate"});
  refused(text_of(lines + more), "4 logical shards, the lines before of one of 8");
  auto changed = nlohmann::json::parse(lines[3]);
  changed["batch_certificate"] = "0123456789abcdef";
  refused(text_of(lines) + changed.dump() + "\n", "micro batch 3 of epoch 0 was there before");
  changed["batch_certificate"] = "0123456789abcdeg";
  refused(changed.dump() + "\n", "16 hexadecimal digits");
  CHECK(certify({files.file("nothing")}).exit_code == 1);

  const auto cut = certify({files.write("cut.jsonl", text_of(lines) + R"({"rank":0,"wor)")});
  CHECK(cut.exit_code == 0);
  CHECK_THAT(cut.err, Catch::Contains("the last line is not complete"));
  CHECK(json_lines(cut.out).size() == 1);
}
