#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <catch2/catch.hpp>

#include "tests/cli/energon_program.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/dataset_builder.h"

using energon::testing::kTens;
using energon::testing::run_energon;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;

TEST_CASE("bench measures an epoch, with figures for each process", "[cli][bench][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens, 1000);
  const auto result = run_energon({"bench", folder.path(), "--num-workers", "2", "--batch-size",
                                   "4", "--epochs", "3", "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json.at("samples") == 165);
  CHECK(json.at("samples_per_second").get<double>() > 0);
  CHECK(json.at("payload_bytes").get<std::int64_t>() > 165'000);
  CHECK(json.at("first_batch_seconds").get<double>() > 0);
  CHECK(json.at("latency_p50_seconds") <= json.at("latency_p99_seconds"));
  REQUIRE(json.at("processes").size() == 3);
  CHECK(json.at("processes")[1].at("name") == "worker 0");
  CHECK(json.at("processes")[1].at("pss_bytes").get<std::int64_t>() > 0);
  const auto& loader = json.at("loader");
  CHECK(loader.at("verdict").at("text").get<std::string>().size() > 10);
  CHECK(loader.at("consumer").at("samples") == 165);
  REQUIRE(loader.at("workers").size() == 2);
  CHECK(loader.at("workers")[1].at("busy_seconds").get<double>() > 0);
  CHECK(loader.at("failures").empty());
}

TEST_CASE("bench shows what limits the loader, and what was left out", "[cli][bench][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  run_energon({"dump", folder.path(), "--limit", "1"});  // indexes the shards
  const std::string shard = folder.file("shard-002.tar");
  const auto time = std::filesystem::last_write_time(shard);
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.put('#');
  file.close();
  std::filesystem::last_write_time(shard, time);
  const auto result = run_energon(
      {"bench", folder.path(), "--num-workers", "2", "--epochs", "1", "--on-error", "skip"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("verdict: ") && Catch::Contains("worker 1: ") &&
                             Catch::Contains("queued") && Catch::Contains("read ") &&
                             Catch::Contains("1 sample in 1 shard left out") &&
                             Catch::Contains("shard-002.tar"));
}

TEST_CASE("bench stops after the time or the batches it was given", "[cli][bench]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const auto batches =
      run_energon({"bench", folder.path(), "--batches", "20", "--warmup-batches", "5", "--json"});
  CHECK(nlohmann::json::parse(batches.out).at("batches") == 20);
  const auto seconds = run_energon({"bench", folder.path(), "--seconds", "0.1"});
  CHECK(seconds.exit_code == 0);
  CHECK_THAT(seconds.out, Catch::Contains("samples/s") && Catch::Contains("parent:"));
}

TEST_CASE("Ctrl-C ends a bench with the numbers until then", "[cli][bench]") {
  const TempDir folder;
  const TempDir logs;
  write_numbered_shards(folder, kTens);
  energon::testing::RunningProgram program({"bench", folder.path(), "--seconds", "1000",
                                            "--num-workers", "0", "--debug-log",
                                            logs.file("log-{worker_id}.jsonl"), "--no-progress"});
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
