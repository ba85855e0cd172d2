// The output of analyze for known orders.

#include <algorithm>
#include <fstream>
#include <numeric>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/order/rng.h"
#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"

using energon::read_file;
using energon::testing::json_lines;
using energon::testing::kTens;
using energon::testing::run_energon;
using energon::testing::run_lines;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;
using Numbers = std::vector<std::int64_t>;

namespace {

Numbers ascending(std::int64_t count) {
  Numbers numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Numbers shuffled(std::int64_t count) {
  Numbers numbers = ascending(count);
  energon::Mt19937 rng(7);
  for (std::size_t i = numbers.size(); i > 1; --i) {
    std::swap(numbers[i - 1], numbers[rng() % i]);
  }
  return numbers;
}

// A log of batches of two, with keys that sort differently as text and by their numbers.
std::string log_of(const Numbers& numbers) {
  std::string text = R"({"t":"SavableDataLoader.iter","r":0,"w":null})"
                     "\n";
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    text += fmt::format(
        R"({{"t":"SavableDataLoader.yield","r":0,"w":null,"idx":{},"keys":["s/{}","s/{}"]}})"
        "\n",
        i / 2, numbers[i], numbers[i + 1]);
  }
  return text;
}

nlohmann::json analyze(const std::string& log, const std::vector<std::string>& more = {}) {
  const TempDir folder;
  std::vector<std::string> arguments = {"analyze", folder.write("log.jsonl", log), "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto result = run_energon(arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return nlohmann::json::parse(result.out);
}

}  // namespace

TEST_CASE("analyze distinguishes stored, reversed and shuffled orders", "[cli][analyze]") {
  const auto stored = analyze(log_of(ascending(2000)));
  CHECK(stored["unique_samples"] == 2000);
  CHECK(stored["steps"] == 1000);
  CHECK(stored["rank_correlation"].get<double>() == Approx(1));
  CHECK(stored["longest_run"] == 2000);
  CHECK(stored["neighbor_distance"].get<double>() < 0.01);

  Numbers backwards = ascending(2000);
  std::reverse(backwards.begin(), backwards.end());
  const auto reversed = analyze(log_of(backwards));
  CHECK(reversed["rank_correlation"].get<double>() == Approx(-1));
  CHECK(reversed["longest_run"] == 2000);

  const auto random = analyze(log_of(shuffled(2000)));
  CHECK(std::abs(random["rank_correlation"].get<double>()) < 0.1);
  CHECK(random["neighbor_distance"].get<double>() == Approx(1).margin(0.1));
  CHECK(random["longest_run"] < 6);
}

TEST_CASE("analyze counts how often each sample was delivered", "[cli][analyze]") {
  Numbers twice = ascending(10);
  const Numbers again = ascending(4);
  twice.insert(twice.end(), again.begin(), again.end());
  const auto figures = analyze(log_of(twice));
  CHECK(figures["unique_samples"] == 10);
  CHECK(figures["deliveries"] == 14);
  CHECK(figures["least_seen"] == 1);
  CHECK(figures["most_seen"] == 2);
  CHECK(figures["mean_seen"].get<double>() == Approx(1.4));
  CHECK(figures["longest_run"] == 10);
}

TEST_CASE("analyze reads the logs of loaders and counts each batch once", "[cli][analyze][fork]") {
  const TempDir data;
  const TempDir logs;
  write_numbered_shards(data, kTens);
  run_lines(data.path(), {"--mode", "val", "--batch-size", "5", "--num-workers", "2", "--debug-log",
                          logs.file("log-{worker_id}.jsonl")});
  const auto all = run_energon({"analyze", logs.file("log-*.jsonl"), "--json"});
  INFO(all.err);
  REQUIRE(all.exit_code == 0);
  const auto json = nlohmann::json::parse(all.out);
  CHECK(json["logs"] == 3);
  CHECK(json["unique_samples"] == 55);
  CHECK(json["deliveries"] == 55);
  const auto workers = run_energon({"analyze", logs.file("log-1.jsonl"), logs.file("log-2.jsonl")});
  CHECK_THAT(workers.out, Catch::Contains("2 logs") && Catch::Contains("55 unique sample keys") &&
                              Catch::Contains("rank correlation"));
}

TEST_CASE("test_debug_dataset", "[cli][analyze][fork]") {
  // Energon's test_dataset.py: the log of two epochs of validation contains the delivered batches
  // in order.
  const TempDir data;
  const TempDir logs;
  write_numbered_shards(data, {30, 20});
  const auto delivered =
      run_lines(data.path(), {"--mode", "val", "--epochs", "2", "--batch-size", "5",
                              "--num-workers", "2", "--debug-log", logs.file("{worker_id}.jsonl")});
  REQUIRE(delivered.size() == 20);
  std::size_t yields = 0;
  for (const auto& line : json_lines(read_file(logs.file("0.jsonl")))) {
    CAPTURE(line);
    if (line["t"] == "SavableDataLoader.yield") {
      REQUIRE(yields < delivered.size());
      CHECK(line["keys"] == nlohmann::json::parse(delivered[yields])["keys"]);
      CHECK(line["iter_idx"] == yields % 10);
      ++yields;
    }
  }
  CHECK(yields == 20);
  const auto result = run_energon({"analyze", logs.file("0.jsonl"), logs.file("1.jsonl"),
                                   logs.file("2.jsonl"), "--heatmap", logs.file("heatmap.png")});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out,
             Catch::Contains("3 logs") && Catch::Contains("50 unique sample keys, 20 steps"));
  CHECK(read_file(logs.file("heatmap.png")).size() > 100);
}

TEST_CASE("a heat map is a picture of steps and samples", "[cli][analyze]") {
  const TempDir folder;
  analyze(log_of(ascending(100)),
          {"--heatmap", folder.file("map.svg"), "--steps", "10", "--samples", "10"});
  const std::string svg = read_file(folder.file("map.svg"));
  CHECK_THAT(svg, Catch::StartsWith("<svg ") && Catch::Contains("viewBox=\"0 0 10 10\""));
  for (int i = 0; i < 10; ++i) {  // only the diagonal
    CAPTURE(i);
    CHECK_THAT(svg, Catch::Contains(fmt::format("<rect x=\"{}\" y=\"{}\" width=\"1\"", i, i)));
  }
  CHECK(std::count(svg.begin(), svg.end(), '\n') == 3 + 10 + 1);

  analyze(log_of(shuffled(300)), {"--heatmap", folder.file("map.png"), "--samples", "77"});
  const std::string png = read_file(folder.file("map.png"));
  CHECK(png.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  CHECK(png.substr(16, 8) == std::string("\0\0\0\x96\0\0\0\x4d", 8));  // 150 steps, 77 samples
}

TEST_CASE("missing, wrong and empty logs are errors, but an unfinished log is not",
          "[cli][analyze]") {
  const TempDir folder;
  const auto fails = [&](const std::string& log, int code, const std::string& reason) {
    const auto result = run_energon({"analyze", log, "--heatmap", folder.file("map.gif")});
    CHECK(result.exit_code == code);
    CHECK_THAT(result.err, Catch::Contains(reason));
  };
  fails(folder.file("none-*.jsonl"), 1, "log not found");
  fails(folder.write("wrong", log_of({0, 1}) + "hello\n"), 1, "line 3");
  fails(folder.write("empty", ""), 1, "no batches in 1 log");
  fails(folder.path(), 1, "a folder is not a debug log");
  const auto batch = [](const std::string& fields) {
    return R"({"t":"SavableDataLoader.yield","r":0,"w":null,)" + fields + "}\n";
  };
  fails(folder.write("keyless", batch(R"("idx":0,"keys":[])")), 1,
        "no sample keys: there is no order to analyze");
  for (const std::string idx :
       {"18446744073709551615", "99999999999999999999", "1e300", "-1", "1.5", "null"}) {
    fails(folder.write("huge", batch(R"("keys":["a"],"idx":)" + idx)), 1,
          "line 1 is not from a debug log: 'idx' must be a whole number from 0 to");
  }
  fails(folder.write("deep", batch(R"("keys":["a"],"idx":)" + std::string(200'000, '[') +
                                   std::string(200'000, ']'))),
        1, "nested more than 16 levels deep");
  fails(folder.write("unkeyed", batch(R"("idx":0)")), 1, "'keys' is missing");
  fails(folder.write("numbers", batch(R"("idx":0,"keys":[1])")), 1, "must be a list of strings");
  fails(folder.write("list", "[]\n"), 1, "not a JSON object");
  fails(folder.write("good", log_of({0, 1})), 2, "map.gif");
  const std::string cut = folder.write("cut", log_of({0, 1, 2, 3}) + R"({"t":"Sav)");
  const auto result = run_energon({"analyze", cut});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.err, Catch::Contains("the last line is not complete"));
}
