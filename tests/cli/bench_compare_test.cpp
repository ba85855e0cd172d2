// energon bench --compare with results that are written here, so that their numbers are known.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/temp_dir.h"

using energon::testing::kTens;
using energon::testing::run_energon;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;
using Json = nlohmann::ordered_json;

namespace {

// A result whose repetitions took a second each and delivered these numbers of samples.
Json result_of(const std::vector<int>& samples, const std::string& workers = "1") {
  Json json = {{"bench_version", 1},
               {"program", "energon-cpp 1"},
               {"settings", {{"PATH", "/data"}, {"--num-workers", workers}, {"--limit", nullptr}}},
               {"machine", {{"date", "2026-01-02"}, {"cores", 2}, {"load_1min_at_start", "0.1"}}},
               {"repetitions", Json::array()},
               {"first_batch_seconds", 0.002}};
  for (const int count : samples) {
    json["repetitions"].push_back({{"batches", 7},
                                   {"samples", count},
                                   {"payload_bytes", count * 1000},
                                   {"seconds", 1},
                                   {"latency_p50_seconds", 0.001},
                                   {"latency_p99_seconds", 0.004}});
  }
  return json;
}

class Compared {
 public:
  Compared(const Json& first, const Json& second) {
    folder_.write("a.json", first.dump());
    folder_.write("b.json", second.dump());
  }

  energon::testing::ProgramResult run(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"bench", "--compare", folder_.file("a.json"),
                                      folder_.file("b.json")};
    words.insert(words.end(), more.begin(), more.end());
    return run_energon(words);
  }

  void check_refused(const std::string& reason) const {
    const auto result = run();
    CHECK(result.exit_code == 1);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Catch::Contains(reason) && Catch::Contains(folder_.path()));
  }

 private:
  TempDir folder_;
};

}  // namespace

TEST_CASE("results whose repetitions are apart are compared by their medians", "[cli][bench]") {
  const auto result = Compared(result_of({1100, 1000, 900}), result_of({2600, 2500, 2400})).run();
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("a.json (energon-cpp 1, 2026-01-02, 3 repetitions)") &&
                             Catch::Contains("samples/s         1,000 (900 to 1,100)             "
                                             "2,500 (2,400 to 2,600)           2.50   apart\n") &&
                             Catch::Contains("MB/s              1.0 (0.9 to 1.1) ") &&
                             Catch::Contains("latency p99, ms   4.000 (4.000 to 4.000)           "
                                             "4.000 (4.000 to 4.000)           1.00   overlap\n") &&
                             Catch::Contains("first batch, ms   2.000") &&
                             Catch::Contains("B reaches 2.50 times those of A") &&
                             !Catch::Contains("No claim"));
}

TEST_CASE("no difference is claimed for results that overlap or have no spread", "[cli][bench]") {
  const auto overlapping =
      Compared(result_of({1000, 1200, 1500}), result_of({1500, 1800, 1900})).run();
  CHECK(overlapping.exit_code == 0);
  CHECK_THAT(overlapping.out, Catch::Contains("1.50   overlap\n") &&
                                  Catch::Contains("No claim: the ranges") &&
                                  !Catch::Contains("B reaches"));
  const auto single = Compared(result_of({1000}), result_of({1500, 1800, 1900})).run();
  CHECK_THAT(single.out, Catch::Contains("samples/s         1,000    ") &&
                             Catch::Contains("1.80   unknown\n") &&
                             Catch::Contains("No claim: one repetition has no spread"));
}

TEST_CASE("results with different settings are compared on request only", "[cli][bench]") {
  Json other = result_of({2000, 2000}, "2");
  other["settings"]["--touch"] = true;
  other["machine"]["cores"] = 8;
  other["machine"]["date"] = "2026-03-04";
  const Compared compared(result_of({1000, 1000}), other);
  compared.check_refused("--num-workers is 1 in ");
  const auto refused = compared.run();
  CHECK_THAT(refused.err, Catch::Contains("a.json and 2 in ") &&
                              Catch::Contains("--touch is not set in ") &&
                              Catch::Contains("--any-settings") && !Catch::Contains("cores"));
  const auto result = compared.run({"--any-settings"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("\n--num-workers is 1 in A and 2 in B\n") &&
                             Catch::Contains("\n--touch is not set in A and true in B\n") &&
                             Catch::Contains("\ndifferent machine: cores is 2 in A and 8 in B\n") &&
                             !Catch::Contains("is 2026"));
}

TEST_CASE("a file that is not a result of bench is refused with the place", "[cli][bench]") {
  const Json good = result_of({1, 2});
  Json other = good;
  other["bench_version"] = 9;
  Compared(good, other).check_refused("version 9, this program reads version 1");
  other = good;
  other["repetitions"][1]["seconds"] = 0;
  Compared(good, other).check_refused("result.repetitions[1]: expected samples and a time");
  other = good;
  other["repetitions"][1].erase("samples");
  Compared(good, other).check_refused("expected a member 'samples'");
  other = good;
  other["repetitions"] = Json::array();
  Compared(good, other).check_refused("at least one repetition");
  other = good;
  other["repetitions"][0]["seconds"] = "1";
  Compared(good, other).check_refused("expected a number of seconds");
  other["settings"] = 7;
  Compared(good, other).check_refused("expected an object");
  Compared(good, Json("text")).check_refused("result");
  const TempDir folder;
  folder.write("x", "{");
  const auto broken = run_energon({"bench", "--compare", folder.file("x"), folder.file("y")});
  CHECK(broken.exit_code == 1);
  CHECK_THAT(broken.err, Catch::Contains("not JSON"));
}

TEST_CASE("two runs with the same flags can be compared, other flags are refused", "[cli][bench]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::vector<std::string> names = {folder.file("a.json"), folder.file("b.json")};
  for (const std::string& name : names) {
    const auto run = run_energon({"bench", folder.path(), "--limit", "20", "--json", name});
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    CHECK_THAT(run.out, Catch::Contains("throughput:"));
  }
  const auto result = run_energon({"bench", "--compare", names[0], names[1]});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("5 repetitions") && !Catch::Contains(" is "));
  const auto refused = run_energon({"bench", "--compare", names[0], names[1], "--batch-size", "4"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Catch::Contains("omit --batch-size"));
}
