// energon certify: global batches of jobs on several layouts, as a user compares them.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"

using energon::testing::json_lines;
using energon::testing::kTens;
using energon::testing::ProgramResult;
using energon::testing::run_energon;
using energon::testing::run_lines;
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

// A job that changes its layout. Writes the output of its ranks to files.
class MovingJob {
 public:
  explicit MovingJob(const TempDir& data) : data_(data) {}

  /// Runs all ranks from the saved position of the job until `end`, and saves it after `steps`.
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
      outputs_.push_back(files_.write(
          name + ".jsonl",
          text_of(run_lines(data_.path(),
                            kFlags + layout + restore + end +
                                Words{"--rank", std::to_string(rank), "--save-after",
                                      std::to_string(steps), "--save-to", states.back()}))));
    }
    state_ = files_.file(fmt::format("{}.state", runs_++));
    REQUIRE(run_energon(Words{"checkpoint", "merge", "--output", state_} + states).exit_code == 0);
  }

  const Words& outputs() const { return outputs_; }

 private:
  const TempDir& data_;
  TempDir files_;
  Words outputs_;
  std::string state_;
  int runs_ = 0;
};

ProgramResult certify(const Words& outputs, const Words& flags = {}) {
  return run_energon(Words{"certify"} + outputs + flags);
}

}  // namespace

TEST_CASE("two jobs that read the same data have the same global batches on any layouts",
          "[cli][certify][fork]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  MovingJob job(data);
  job.run(4, 2, {"--limit", "11"}, 10);  // a step more than is saved, which is repeated
  job.run(2, 3, {"--limit", "13"}, 13);
  job.run(8, 1, {"--limit", "9"}, 9);  // micro batches 66 to 137
  const TempDir files;
  const auto undisturbed = [&](const Words& more) {
    return files.write("undisturbed.jsonl",
                       text_of(run_lines(data.path(), kFlags + Words{"--limit", "138"} + more)));
  };
  const std::string alone = undisturbed({});

  for (const Words& size : {Words{}, Words{"--global-batch", "12"}, Words{"--global-batch", "5"}}) {
    CAPTURE(size);
    const auto expected = certify({alone}, size);
    const auto found = certify(job.outputs(), size);
    CHECK(expected.exit_code == 0);
    CHECK(found.exit_code == 0);
    CHECK(found.out == expected.out);
    CHECK_THAT(found.err, Catch::Contains("the output ends within it"));
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

TEST_CASE("a difference is found in its global batch", "[cli][certify]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  Words lines = run_lines(data.path(), kFlags + Words{"--limit", "40"});
  const TempDir files;
  const auto certified = [&] {
    return json_lines(
        certify({files.write("run.jsonl", text_of(lines))}, {"--global-batch", "10"}).out);
  };
  const auto expected = certified();
  REQUIRE(expected.size() == 4);
  // Micro batches 12 and 17 are swapped.
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
    CAPTURE(batch);
    CHECK((found[batch] == expected[batch]) == (batch != 1));
  }
}

TEST_CASE("missing micro batches are named after the complete global batches",
          "[cli][certify][fork]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  MovingJob job(data);
  job.run(4, 2, {"--limit", "4"}, 4);
  job.run(2, 0, {"--limit", "8"}, 8);
  const auto whole = json_lines(certify(job.outputs()).out);
  REQUIRE(whole.size() == 4);
  Words outputs = job.outputs();
  outputs.pop_back();  // rank 1 of the second layout
  const auto missing = certify(outputs);
  CHECK(missing.exit_code == 1);
  CHECK(json_lines(missing.out) == std::vector<nlohmann::json>(whole.begin(), whole.begin() + 2));
  CHECK_THAT(
      missing.err,
      Catch::Contains("7 micro batches of epoch 0 are missing: 17, 19, 21, 23, 25, 27, 29;"));
  // Without the first layout, the stream starts later, with a whole global batch.
  CHECK(json_lines(certify(Words(job.outputs().begin() + 4, job.outputs().end())).out) ==
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
      files.write("alone.jsonl", text_of(run_lines(data.path(), kFlags + Words{"--epochs", "2"})));
  const auto expected = certify({alone});
  CHECK(expected.exit_code == 0);
  CHECK(expected.err.empty());
  const auto lines = json_lines(expected.out);
  REQUIRE(lines.size() == 8);
  CHECK(lines[3].at("micro_batches") == 7);
  CHECK(lines[4].at("epoch") == 1);
  CHECK(lines[4].at("global_batch") == 0);
  const auto found = certify(job.outputs());
  CHECK(found.exit_code == 0);
  CHECK(found.out == expected.out);
}

TEST_CASE("a rank with nothing left of an epoch still prints its end", "[cli][certify][fork]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  MovingJob job(data);
  job.run(8, 1, {"--epochs", "2", "--limit", "4"}, 4);  // rank 7, with three, began the next
  job.run(4, 0, {"--epochs", "2", "--limit", "1000"}, 0);
  const TempDir files;
  const std::string alone =
      files.write("alone.jsonl", text_of(run_lines(data.path(), kFlags + Words{"--epochs", "2"})));
  CHECK(certify(job.outputs()).out == certify({alone}).out);
  // The end of epoch 0 of logical shard 7 was printed when it was alone on a rank.
  const std::string rank = energon::read_file(job.outputs().back());
  CHECK_THAT(rank, Catch::Contains(R"({"rank":3,"end_of_epoch":0,"of_logical_shards":[3],)"
                                   R"("micro_batches":[4],"logical_shards":8})"));
  CHECK_THAT(rank, Catch::Contains(R"({"rank":3,"end_of_epoch":1,"of_logical_shards":[3,7],)"
                                   R"("micro_batches":[4,3],"logical_shards":8})"));
}

TEST_CASE("a lost run at the end of an epoch is noticed", "[cli][certify][fork]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  MovingJob job(data);
  job.run(2, 0, {"--epochs", "1", "--limit", "5"}, 5);
  job.run(2, 0, {"--epochs", "1", "--limit", "11"}, 11);  // rank 1 has ten, and ends the epoch
  job.run(2, 0, {"--epochs", "2", "--limit", "1000"}, 0);
  const auto whole = json_lines(certify(job.outputs()).out);
  REQUIRE(whole.size() == 8);
  const auto without = [&](const std::vector<std::size_t>& lost, const std::string& reason) {
    Words outputs;
    for (std::size_t i = 0; i < job.outputs().size(); ++i) {
      if (std::find(lost.begin(), lost.end(), i) == lost.end()) {
        outputs.push_back(job.outputs()[i]);
      }
    }
    const auto result = certify(outputs);
    CHECK(result.exit_code == 1);
    CHECK(json_lines(result.out) == std::vector<nlohmann::json>(whole.begin(), whole.begin() + 1));
    CHECK_THAT(result.err, Catch::Contains(reason));
  };
  without({3}, "10 micro batches of epoch 0 are missing: 11, 13, 15, 17, 19, 21, 23, 25, 27, 29;");
  // After its restart, rank 0 prints the end of the epoch, with the number of batches, again.
  without({2}, "11 micro batches of epoch 0 are missing: 10, 12, 14,");
  without({2, 3}, "micro batches of epoch 0 are missing: 10, 11, 12,");
}

TEST_CASE("lost lines around the end of an epoch are noticed", "[cli][certify]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  const Words lines = run_lines(data.path(), kFlags + Words{"--epochs", "3"});
  REQUIRE(lines.size() == 96);  // 31 micro batches and an end of each epoch
  const TempDir files;
  const auto without = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    Words rest(lines.begin(), lines.begin() + begin);
    rest.insert(rest.end(), lines.begin() + end, lines.end());
    return certify({files.write("run.jsonl", text_of(rest))});
  };
  CHECK(without(96, 96).exit_code == 0);
  const auto begin = without(20, 33);
  CHECK(begin.exit_code == 1);
  CHECK(json_lines(begin.out).size() == 2);
  CHECK_THAT(begin.err, Catch::Contains("the end of epoch 0 is missing, of 8 logical shards: 0, "
                                        "1, 2, 3, 4, 5, 6, 7; give the output"));
  const auto end = without(31, 32);
  CHECK(end.exit_code == 1);
  CHECK_THAT(end.err, Catch::Contains("the end of epoch 0 is missing"));
  CHECK_THAT(without(32, 33).err, Catch::Contains("1 micro batches of epoch 1 are missing: 0;"));
}

TEST_CASE("files without certificates are refused with the line", "[cli][certify]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  const TempDir files;
  const auto refused = [&](const std::string& text, const std::string& reason) {
    const auto result = certify({files.write("run.jsonl", text)});
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Catch::Contains(reason));
  };
  const Words lines = run_lines(data.path(), kFlags + Words{"--limit", "9"});
  refused(text_of(run_lines(data.path(), {"--limit", "2"})),
          "line 1 is not from a run with --certificate");
  refused(lines[0] + "\nnonsense\n" + lines[1] + "\n",
          "line 2 is not from a run with --certificate and --logical-shards: not JSON");
  const Words more =
      run_lines(data.path(), {"--logical-shards", "4", "--limit", "1", "--certificate"});
  refused("", "the files contain no lines");
  refused(text_of(lines + more), "4 logical shards, but 8 on earlier lines");
  auto changed = nlohmann::json::parse(lines[3]);
  changed["batch_certificate"] = "0123456789abcdef";
  refused(text_of(lines) + changed.dump() + "\n", "micro batch 3 of epoch 0 occurred before");
  changed["batch_certificate"] = "0123456789abcdeg";
  refused(changed.dump() + "\n", "16 hexadecimal digits");
  CHECK_THAT(certify({files.file("nothing")}).err,
             Catch::Contains("file with the output of a run not found"));
  CHECK_THAT(certify({data.path()}).err, Catch::Contains("a folder is not a run"));
  CHECK(certify({data.path()}).exit_code == 1);

  const auto with = [&](const char* field, nlohmann::json value) {
    auto line = nlohmann::json::parse(lines[3]);
    line[field] = std::move(value);
    return line.dump() + "\n";
  };
  refused(with("keys", 7), "'keys' must be a list of strings");
  refused(with("keys", nlohmann::json::array({"a", 7})), "'keys' must be a list of strings");
  refused(with("logical_shards", nlohmann::json::array({1})),
          "whole number from 0 to 9007199254740992, found array");
  refused(with("micro_batch", std::uint64_t{1} << 63), "whole number from 0 to 9007199254740992");
  refused(with("logical_shards", std::int64_t{1} << 40),
          "cannot have 1099511627776 logical shards");
  refused(R"({"logical_shards":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}\n",
          "nested more than 16 levels deep");
  const std::string end = R"({"end_of_epoch":0,"logical_shards":8,"of_logical_shards":)";
  refused(end + R"([8],"micro_batches":[1]})" + "\n", "logical shard 8 of 8 cannot");
  refused(end + R"([0,1],"micro_batches":[1]})" + "\n", "'micro_batches' has 1 numbers for 2");
  refused(end + R"([0],"micro_batches":[1]})" + "\n" + end + R"([0],"micro_batches":[2]})" + "\n",
          "ended after 1 micro batches before, now after 2");
  refused(text_of(lines) + end + R"([3],"micro_batches":[0]})" + "\n",
          "micro batch 3 of epoch 0 comes after the end of its logical shard");

  const auto cut = certify({files.write("cut.jsonl", text_of(lines) + R"({"rank":0,"wor)")});
  CHECK(cut.exit_code == 0);
  CHECK_THAT(cut.err, Catch::Contains("the last line is not complete"));
  CHECK(json_lines(cut.out).size() == 1);
}

TEST_CASE("large numbers do not cause much work", "[cli][certify]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  const TempDir files;
  const Words lines = run_lines(data.path(), kFlags + Words{"--epochs", "1"});
  const std::string whole = files.write("whole.jsonl", text_of(lines));
  const auto all = certify({whole}, {"--global-batch", "2147483647"});
  CHECK(all.exit_code == 0);
  REQUIRE(json_lines(all.out).size() == 1);
  CHECK(json_lines(all.out)[0].at("micro_batches") == 31);
  for (const char* const size : {"0", "2147483648", "1000000000000"}) {
    CAPTURE(size);
    CHECK(certify({whole}, {"--global-batch", size}).exit_code == 2);
  }
  auto line = nlohmann::json::parse(lines[0]);
  line["micro_batch"] = 4'000'000'000'000;
  const auto gap = certify({files.write("gap.jsonl", lines[0] + "\n" + line.dump() + "\n")}, {});
  CHECK(gap.exit_code == 1);
  CHECK_THAT(gap.err,
             Catch::Contains("3999999999999 micro batches of epoch 0 are missing: 1, 2, "));
}

TEST_CASE("an existing file is used even if its name looks like a pattern", "[cli][certify]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  const TempDir files;
  const std::string text = text_of(run_lines(data.path(), kFlags + Words{"--limit", "8"}));
  const auto result = certify({files.write("run[1].jsonl", text)});
  CHECK(result.exit_code == 0);
  CHECK(json_lines(result.out).size() == 1);
}

TEST_CASE("epochs whose end is not reported are numbered as the loader counts them",
          "[cli][certify]") {
  const TempDir data;
  write_numbered_shards(data, kTens);
  const Words flags = {"--logical-shards", "2", "--virtual-epoch-length", "4", "--certificate"};
  const auto labels = [](const Words& lines) {
    Words found;
    for (const std::string& line : lines) {
      const auto json = json_lines(line + "\n").at(0);
      found.push_back(json.contains("end_of_epoch")
                          ? fmt::format("end of {}: {}", json.at("end_of_epoch").get<int>(),
                                        json.at("micro_batches").dump())
                          : fmt::format("{}:{}", json.at("epoch").get<int>(),
                                        json.at("micro_batch").get<int>()));
    }
    return found;
  };
  const Words loop =
      labels(run_lines(data.path(), flags + Words{"--epoch-policy", "loop", "--limit", "9"}));
  CHECK(loop == Words{"0:0", "0:1", "0:2", "0:3", "end of 0: [2,2]", "1:0", "1:1", "1:2", "1:3",
                      "end of 1: [2,2]", "2:0"});
  const Words strict = labels(run_lines(data.path(), flags + Words{"--limit", "9"}));
  CHECK(strict == loop);
  // Also from a saved position in the middle of the second epoch.
  const TempDir files;
  run_lines(data.path(), flags + Words{"--epoch-policy", "loop", "--limit", "6", "--save-after",
                                       "6", "--save-to", files.file("s.state")});
  CHECK(labels(run_lines(data.path(), flags + Words{"--epoch-policy", "loop", "--limit", "3",
                                                    "--restore-from", files.file("s.state")})) ==
        Words{"1:2", "1:3", "end of 1: [2,2]", "2:0"});
}
