#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <catch2/catch.hpp>

#include "tests/cli/energon_program.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/tar_builder.h"

using energon::testing::operator+;
using energon::testing::kTens;
using energon::testing::run_energon;
using energon::testing::TempDir;
using energon::testing::Words;
using energon::testing::write_numbered_shards;

namespace {

nlohmann::json bench_json(const Words& arguments) {
  const auto result = run_energon(Words{"bench"} + arguments + Words{"--json", "-"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return nlohmann::json::parse(result.out);
}

}  // namespace

TEST_CASE("bench measures an epoch, with figures for each process", "[cli][bench][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens, 1000);
  const auto result = run_energon({"bench", folder.path(), "--num-workers", "2", "--batch-size",
                                   "4", "--epochs", "3", "--json", "-"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto json = nlohmann::json::parse(result.out);
  REQUIRE(json.at("repetitions").size() == 5);
  for (const auto& repetition : json.at("repetitions")) {
    CHECK(repetition.at("samples") == 165);
    CHECK(repetition.at("payload_bytes").get<std::int64_t>() > 165'000);
    CHECK(repetition.at("latency_p50_seconds") <= repetition.at("latency_p99_seconds"));
  }
  const auto& rates = json.at("samples_per_second");
  CHECK(0 < rates.at("min").get<double>());
  CHECK(rates.at("min") <= rates.at("first_quartile"));
  CHECK(rates.at("first_quartile") <= rates.at("median"));
  CHECK(rates.at("median") <= rates.at("third_quartile"));
  CHECK(rates.at("third_quartile") <= rates.at("max"));
  CHECK(json.at("first_batch_seconds").get<double>() > 0);
  REQUIRE(json.at("processes").size() == 3);
  CHECK(json.at("processes")[1].at("name") == "worker 0");
  CHECK(json.at("processes")[1].at("pss_bytes").get<std::int64_t>() > 0);
  const auto& loader = json.at("loader");
  CHECK(loader.at("verdict").at("text").get<std::string>().size() > 10);
  CHECK(loader.at("consumer").at("samples") == 6 * 165);  // with the warm-up
  REQUIRE(loader.at("workers").size() == 2);
  CHECK(loader.at("workers")[1].at("busy_seconds").get<double>() > 0);
  CHECK(loader.at("failures").empty());
}

TEST_CASE("bench shows what limits the loader, and which samples were left out",
          "[cli][bench][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  run_energon({"run", folder.path(), "--limit", "1"});  // indexes the shards
  const std::string shard = folder.file("shard-002.tar");
  const auto time = std::filesystem::last_write_time(shard);
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.put('#');
  file.close();
  std::filesystem::last_write_time(shard, time);
  const auto result =
      run_energon({"bench", folder.path(), "--num-workers", "2", "--epochs", "1", "--on-error",
                   "skip", "--repetitions", "1", "--warmup-batches", "0"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("verdict: ") && Catch::Contains("worker 1: ") &&
                             Catch::Contains("queued") && Catch::Contains("read ") &&
                             Catch::Contains("1 sample in 1 shard left out") &&
                             Catch::Contains("shard-002.tar"));
}

TEST_CASE("a repetition of bench ends after the given batches or time", "[cli][bench]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const auto batches =
      bench_json({folder.path(), "--limit", "20", "--warmup-batches", "7", "--repetitions", "2"});
  CHECK(batches.at("warmup_batches") == 7);
  REQUIRE(batches.at("repetitions").size() == 2);
  CHECK(batches.at("repetitions")[1].at("batches") == 20);
  const auto seconds = bench_json({folder.path(), "--seconds", "0.05", "--repetitions", "3"});
  REQUIRE(seconds.at("repetitions").size() == 3);
  CHECK(seconds.at("repetitions")[2].at("seconds").get<double>() >= 0.05);
  CHECK(seconds.at("warmup_batches").get<int>() > 0);
  // Otherwise the warm-up would leave only a part of an epoch for the first repetition.
  const auto epochs = bench_json({folder.path(), "--epochs", "1", "--warmup-batches", "7"});
  CHECK(epochs.at("warmup_batches") == 55);
  CHECK(epochs.at("repetitions")[0].at("samples") == 55);
}

TEST_CASE("bench prints median and spread, but not for one repetition", "[cli][bench]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const auto several = run_energon({"bench", folder.path(), "--limit", "30", "--no-progress"});
  CHECK_THAT(several.out, Catch::Contains("150 batches, 150 samples, ") &&
                              Catch::Contains(", in 5 repetitions after 30 batches of warm-up\n") &&
                              Catch::Contains("MB/s (medians)\nspread: ") &&
                              Catch::Contains("touched:       every byte\n") &&
                              Catch::Contains("parent:"));
  const auto one = run_energon({"bench", folder.path(), "--limit", "30", "--repetitions", "1",
                                "--warmup-batches", "0", "--no-touch", "--no-progress"});
  CHECK_THAT(one.out, Catch::Contains(" s\nthroughput:    ") && Catch::Contains("MB/s\ntouched") &&
                          Catch::Contains("touched:       nothing (--no-touch)\n") &&
                          !Catch::Contains("spread"));
}

TEST_CASE("bench reads every byte that it counts, unless told not to", "[cli][bench][fork]") {
  const std::string text = "abcdefghijkl";  // a word and a half
  std::uint64_t whole = 0;
  std::uint64_t half = 0;
  std::memcpy(&whole, text.data(), 8);
  std::memcpy(&half, text.data() + 8, 4);
  energon::testing::TarBuilder tar;
  for (const char* key : {"a", "b", "c", "d"}) {
    tar.file(std::string(key) + ".txt", text).file(std::string(key) + ".bin", "x");
  }
  const TempDir folder;
  folder.write("shard.tar", tar.end().text());
  for (const char* workers : {"0", "1"}) {
    CAPTURE(workers);
    const Words run = {folder.path(), "--epochs",      "2",    "--repetitions",
                       "3",           "--num-workers", workers};
    const auto json = bench_json(run);
    CHECK(json.at("settings").at("--touch") == true);
    CHECK(json.at("touched_sum") == 2 * 3 * 4 * (whole + half + 'x'));
    CHECK(bench_json(run + Words{"--no-touch"}).at("touched_sum").is_null());
  }
}

TEST_CASE("Ctrl-C ends a bench with the numbers until then", "[cli][bench]") {
  const TempDir folder;
  const TempDir logs;
  write_numbered_shards(folder, kTens);
  energon::testing::RunningProgram program(
      {"bench", folder.path(), "--seconds", "1000", "--num-workers", "0", "--debug-log",
       logs.file("log-{worker_id}.jsonl"), "--no-progress", "--warmup-batches", "0"});
  const std::string log = logs.file("log-0.jsonl");
  const auto has_batch = [&log] {
    std::ifstream file(log);
    return std::string(std::istreambuf_iterator<char>(file), {}).find(".yield") !=
           std::string::npos;
  };
  REQUIRE(energon::testing::eventually(has_batch));
  program.send_signal(SIGINT);
  const auto result = program.finish();
  CHECK(result.exit_code == 130);
  CHECK_THAT(result.err, Catch::Contains("interrupted"));
  CHECK_THAT(result.out, Catch::Contains("throughput:") && Catch::Contains("verdict:"));
}

TEST_CASE("Ctrl-C in the warm-up of a bench warns that nothing was measured", "[cli][bench]") {
  const TempDir folder;
  const TempDir logs;
  write_numbered_shards(folder, kTens);
  energon::testing::RunningProgram program({"bench", folder.path(), "--seconds", "1000",
                                            "--debug-log", logs.file("log-{worker_id}.jsonl")});
  REQUIRE(energon::testing::eventually(
      [&logs] { return std::filesystem::exists(logs.file("log-0.jsonl")); }));
  program.send_signal(SIGINT);
  const auto result = program.finish();
  CHECK(result.exit_code == 130);
  CHECK_THAT(result.err, Catch::Contains("nothing was measured"));
  CHECK(result.out.empty());
}
