// Bad samples end a run, or are left out and recorded, and then left out from the start.

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"

using energon::read_file;
using energon::testing::json_lines;
using energon::testing::kTens;
using energon::testing::operator+;
using energon::testing::numbers_of;
using energon::testing::run_energon;
using energon::testing::run_lines;
using energon::testing::TempDir;
using energon::testing::Words;
using energon::testing::write_numbered_shards;

namespace {

// A sample of two parts, 1,024 bytes each.
constexpr std::int64_t kSampleBytes = 2048;

// 55 samples; the headers of 3, 27 and 41 are damaged, the last shard is truncated.
class Damaged {
 public:
  Damaged() {
    write_numbered_shards(folder_, kTens, 500);
    run_energon({"run", folder_.path(), "--limit", "1"});  // indexes the shards
    for (const std::int64_t sample : {3, 27, 41}) {
      const auto path = folder_.file("shard-00" + std::to_string(sample / 10) + ".tar");
      const auto time = std::filesystem::last_write_time(path);
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(sample % 10 * kSampleBytes + 1);
      file.put('#');
      file.close();
      std::filesystem::last_write_time(path, time);
    }
    std::filesystem::resize_file(folder_.file("shard-005.tar"), 3000);
  }
  const std::string& path() const { return folder_.path(); }
  std::string file(const std::string& name) const { return out_.file(name); }

 private:
  TempDir folder_;
  TempDir out_;
};

std::set<std::int64_t> expected() {
  std::set<std::int64_t> numbers;
  for (std::int64_t i = 0; i < 50; ++i) {
    numbers.insert(i);
  }
  for (const std::int64_t bad : {3, 27, 41}) {
    numbers.erase(bad);
  }
  return numbers;
}

std::set<std::int64_t> set_of(const std::vector<std::string>& lines) {
  const auto numbers = numbers_of(lines);
  return {numbers.begin(), numbers.end()};
}

}  // namespace

TEST_CASE("a run records what it leaves out, and the next run leaves out exactly that",
          "[cli][quarantine][fork]") {
  for (const std::string workers : {"0", "2"}) {
    CAPTURE(workers);
    const Damaged data;
    const std::string bad = data.file("bad.jsonl");
    CHECK(run_energon({"run", data.path(), "--epochs", "1"}).exit_code == 1);
    const auto skipped =
        run_lines(data.path(), {"--epochs", "1", "--batch-size", "4", "--num-workers", workers,
                                "--on-error", "skip", "--quarantine", bad});
    CHECK(set_of(skipped) == expected());
    const auto lines = json_lines(read_file(bad));
    REQUIRE(lines.size() == 4);
    CHECK(lines[0].at("shard") == "shard-005.tar");
    CHECK_FALSE(lines[0].contains("index"));
    std::set<std::int64_t> found;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      CAPTURE(i);
      const auto shard = lines[i].at("shard").get<std::string>();
      found.insert((shard[8] - '0') * 10 + lines[i].at("index").get<std::int64_t>());
      CHECK(lines[i].at("bytes")[1] == kSampleBytes);
      CHECK(lines[i].at("stage") == "read");
    }
    CHECK(found == std::set<std::int64_t>{3, 27, 41});

    const auto excluded = run_lines(data.path(), {"--epochs", "1", "--batch-size", "4",
                                                  "--num-workers", workers, "--exclude", bad});
    CHECK(set_of(excluded) == expected());
    CHECK(json_lines(read_file(bad)).size() == 4);
    CHECK(run_energon({"run", "--limit", "1", "--exclude", bad, "--exclude", bad, data.path()})
              .exit_code == 0);
  }
}

TEST_CASE("a shard that cannot be read is counted as a shard, not as a sample",
          "[cli][quarantine][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, {10, 10}, 500);
  REQUIRE(run_energon({"prepare", folder.path(), "--split-ratio", "1,0,0"}).exit_code == 0);
  const auto damage = [&folder](const std::string& name, std::int64_t byte, char value) {
    const auto time = std::filesystem::last_write_time(folder.file(name));  // kept, as by bit rot
    std::fstream file(folder.file(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(byte);
    file.put(value);
    file.close();
    std::filesystem::last_write_time(folder.file(name), time);
  };
  damage("shard-000.tar.idx", 4 * 8 + 7, '\x7f');  // in the middle: found when it is read
  const auto left_out = [&folder] {
    return run_energon(
               {"run", folder.path(), "--epochs", "1", "--num-workers", "2", "--on-error", "skip"})
        .err;
  };
  CHECK_THAT(left_out(), Catch::Contains("1 broken shard with all samples left out, the last") &&
                             Catch::Contains("shard-000.tar, all samples]"));
  damage("shard-001.tar", 3 * kSampleBytes + 1, '#');
  CHECK_THAT(left_out(),
             Catch::Contains("1 sample in 1 shard and 1 broken shard with all samples left out"));
}

TEST_CASE("samples of a JSONL file are excluded by index or key, the file as a whole by neither",
          "[cli][quarantine]") {
  const TempDir folder;
  energon::testing::write_jsonl(folder, "x.jsonl", 4);
  const std::string path = folder.file("x.jsonl");
  const auto run_without = [&](const std::string& sample) {
    const std::string bad = folder.write(
        "bad.jsonl", R"({"dataset":")" + path + R"(","shard":"x.jsonl")" + sample + "}\n");
    return run_energon({"run", path, "--mode", "val", "--exclude", bad});
  };
  CHECK(json_lines(run_without(R"(,"key":"2")").out).size() == 3);
  CHECK(json_lines(run_without(R"(,"index":2)").out).size() == 3);
  const auto none = run_without(R"(,"index":7)");
  CHECK(json_lines(none.out).size() == 4);
  CHECK_THAT(none.err, Catch::Contains("quarantined sample 7 of"));
  const auto whole = run_without("");
  CHECK(whole.exit_code == 1);
  CHECK_THAT(whole.err, Catch::Contains("the whole file is quarantined"));
}

TEST_CASE("too many failures in a row end the run even with --on-error skip", "[cli][quarantine]") {
  const Damaged data;
  const auto result =
      run_energon({"run", data.path(), "--epochs", "1", "--on-error", "skip", "--tolerance", "1"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Catch::Contains("tolerance"));
}

TEST_CASE("a quarantine file that is wrong or missing is an error", "[cli][quarantine]") {
  const Damaged data;
  std::ofstream(data.file("wrong.jsonl")) << "{\"shard\":1}\n";
  for (const char* name : {"wrong.jsonl", "missing.jsonl"}) {
    CAPTURE(name);
    const auto result = run_energon({"run", data.path(), "--exclude", data.file(name)});
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Catch::Contains(name));
  }
}

TEST_CASE("a sample that is bad in each epoch and each run is recorded once",
          "[cli][quarantine][fork]") {
  for (const std::string workers : {"0", "2"}) {
    CAPTURE(workers);
    const Damaged data;
    const std::string bad = data.file("bad.jsonl");
    const auto run = [&] {
      run_lines(data.path(), {"--epochs", "4", "--num-workers", workers, "--on-error", "skip",
                              "--quarantine", bad});
      return json_lines(read_file(bad)).size();
    };
    CHECK(run() == 4);
    CHECK(run() == 4);
  }
}

TEST_CASE("energon exclude adds samples and shards to a file that a running job takes",
          "[cli][quarantine][exclude][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, {10, 10, 10});
  const bool is_prepared = GENERATE(false, true);
  CAPTURE(is_prepared);
  if (is_prepared) {
    REQUIRE(run_energon({"prepare", folder.path(), "--split-ratio", "1,0,0"}).exit_code == 0);
  }
  const TempDir out;
  const std::string bad = out.file("bad.jsonl");
  const auto exclude = [&](const Words& words) {
    const auto result = run_energon(Words{"exclude", folder.path()} + words);
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    return result.out;
  };
  const Words flags = {"--batch-size", "2", "--num-workers", "2", "--shuffle-buffer-size", "5"};
  const auto run = [&](const Words& words) { return run_lines(folder.path(), flags + words); };
  run({"--limit", "10", "--save-to", out.file("state")});

  CHECK_THAT(exclude({"000003", "shard-001.tar/000012", "shard-002.tar", "--output", bad}),
             Catch::Contains("shard-000.tar/000003: added") &&
                 Catch::Contains("shard-002.tar (all samples): added") &&
                 Catch::Contains("3 entries added to") && Catch::Contains("keep their places"));
  CHECK(json_lines(read_file(bad)).size() == 3);
  CHECK_THAT(exclude({"000003", "--output", bad}), Catch::Contains("listed before"));
  CHECK(json_lines(read_file(bad)).size() == 3);

  const auto rest = run({"--exclude", bad, "--restore-from", out.file("state"), "--limit", "10"});
  // The rest of the worker's stream, minus the samples.
  const std::set<std::int64_t> after = set_of(rest);
  CHECK(after.size() > 8);
  CHECK_FALSE(after.contains(3));
  CHECK_FALSE(after.contains(12));
  CHECK(*after.rbegin() < 20);

  exclude({"shard-002.tar", "--output", bad, "--remove"});
  const auto lines = json_lines(read_file(bad));
  REQUIRE(lines.size() == 2);
  CHECK(lines[1].at("key") == "000012");
  CHECK(lines[1].at("index") == 2);
  CHECK(lines[1].at("dataset") == folder.path());
  CHECK(json_lines(exclude({"000012", "000012", "--cause", "blurred"})).at(0).at("cause") ==
        "blurred");
  const auto json = nlohmann::json::parse(exclude({"000012", "--output", bad, "--json"}));
  REQUIRE(json.size() == 1);
  CHECK(json[0].at("changed") == false);

  const auto unknown = run_energon({"exclude", folder.path(), "000013", "00014", "--output", bad});
  CHECK(unknown.exit_code == 1);
  CHECK_THAT(unknown.err, Catch::Contains("no sample has the key '00014'") &&
                              Catch::Contains("did you mean '000014'?"));
  CHECK(json_lines(read_file(bad)).size() == 2);
  CHECK(run_energon({"exclude", folder.path(), "000001", "--remove"}).exit_code == 2);
}

TEST_CASE("calls of energon exclude at the same time lose no change", "[cli][exclude][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, {10});
  REQUIRE(run_energon({"prepare", folder.path(), "--split-ratio", "1,0,0"}).exit_code == 0);
  const TempDir out;
  const std::string bad = out.file("bad.jsonl");
  Words all = {"exclude", folder.path(), "--output", bad};
  for (int i = 0; i < 10; ++i) {
    all.push_back(fmt::format("{:06}", i));
  }
  REQUIRE(run_energon(all).exit_code == 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, key = fmt::format("{:06}", i)] {
      run_energon({"exclude", folder.path(), key, "--output", bad, "--remove"});
      run_energon({"exclude", folder.path(), key, "--split"});
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(json_lines(read_file(bad)).size() == 4);
  const std::string split = read_file(folder.file(".nv-meta/split.yaml"));
  for (int i = 0; i < 6; ++i) {
    CHECK_THAT(split, Catch::Contains(fmt::format("/{:06}", i)));
  }
}

TEST_CASE("energon exclude --split changes the split file, and so the order",
          "[cli][quarantine][exclude]") {
  const TempDir folder;
  write_numbered_shards(folder, {10, 10});
  CHECK_THAT(run_energon({"exclude", folder.path(), "000003", "--split"}).err,
             Catch::Contains("only a prepared dataset has a split file"));
  REQUIRE(run_energon({"prepare", folder.path(), "--split-ratio", "1,0,0"}).exit_code == 0);
  const auto exclude = [&](const Words& words) {
    return run_energon(Words{"exclude", folder.path()} + words + Words{"--split"}).out;
  };
  CHECK_THAT(exclude({"000003", "000017"}), Catch::Contains("2 of 2 entries added to the split") &&
                                                Catch::Contains("order of all samples"));
  CHECK(read_file(folder.file(".nv-meta/split.yaml")).find("- shard-000.tar/000003\n") !=
        std::string::npos);
  CHECK(run_lines(folder.path(), {"--mode", "val", "--split", "train"}).size() == 18);
  exclude({"000003", "--remove"});
  CHECK(run_lines(folder.path(), {"--mode", "val", "--split", "train"}).size() == 19);
}

TEST_CASE("a damaged sample can be excluded by its key", "[cli][quarantine][exclude]") {
  const TempDir folder;
  write_numbered_shards(folder, {10}, 500);
  REQUIRE(
      run_energon({"prepare", folder.path(), "--split-ratio", "1,0,0", "--checksums"}).exit_code ==
      0);
  const auto time = std::filesystem::last_write_time(folder.file("shard-000.tar"));
  std::fstream file(folder.file("shard-000.tar"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4 * kSampleBytes + 1024 + 600);
  file.put('#');
  file.close();
  std::filesystem::last_write_time(folder.file("shard-000.tar"), time);
  const std::string path = folder.path();
  CHECK(run_energon({"run", path, "--mode", "val", "--split", "train"}).exit_code == 1);
  const std::string bad = folder.write("bad.jsonl", run_energon({"exclude", path, "000004"}).out);
  CHECK(run_lines(path, {"--mode", "val", "--split", "train", "--exclude", bad}).size() == 9);
}
