// The statistics of a loader, as pure functions of numbers.

#include "energon/worker/statistics.h"

#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/loader/failure_log.h"
#include "energon/worker/statistics_block.h"
#include "energon/worker/transport.h"
#include "io/error.h"

using energon::Bottleneck;
using energon::Error;
using energon::FailedSample;
using energon::FailureReport;
using energon::LoaderStatistics;
using energon::StageStatistics;
using energon::StatisticsBlock;
using energon::WorkerStatistics;
using std::chrono::milliseconds;

namespace {

StageStatistics reading(milliseconds busy) {
  return {.name = "read", .samples = 100, .bytes = 50'000'000, .busy = busy};
}

StageStatistics encoding(milliseconds busy) {
  return {.name = "encode", .samples = 100, .busy = busy};
}

LoaderStatistics of_workers(const WorkerStatistics& worker, int count = 2) {
  return {.num_workers = count,
          .workers = std::vector<WorkerStatistics>(static_cast<std::size_t>(count), worker),
          .consumer = {.batches = 100, .samples = 6400, .worker_wait = milliseconds(500)}};
}

FailureReport report_of(std::size_t samples) {
  FailureReport report{.stage = "encode",
                       .code = energon::ErrorCode::kCorruptData,
                       .cause = "not a JPEG",
                       .consecutive = 3};
  for (std::size_t i = 0; i < samples; ++i) {
    report.samples.push_back({.key = std::to_string(i),
                              .dataset_path = "/data",
                              .shard_name = "s-0.tar",
                              .index_in_shard = static_cast<std::int64_t>(i),
                              .bytes = {512 * i, 1024}});
  }
  return report;
}

}  // namespace

TEST_CASE("the verdict names the storage when reading dominates and the CPU idles",
          "[loader][statistics]") {
  const auto verdict =
      of_workers({.busy = milliseconds(1000),
                  .consumer_wait = milliseconds(50),
                  .cpu = milliseconds(200),
                  .stages = {reading(milliseconds(800)), encoding(milliseconds(150))}})
          .verdict();
  CHECK(verdict.limit == Bottleneck::kStorage);
  CHECK(verdict.stage == "read");
  CHECK_THAT(verdict.text, Catch::Contains("storage") && Catch::Contains("80 %") &&
                               Catch::Contains("20 %") && Catch::Contains("62.5 MB/s"));
}

TEST_CASE("the verdict names the stage that takes the CPU", "[loader][statistics]") {
  const auto verdict_of = [](milliseconds read, milliseconds encode) {
    return of_workers({.busy = milliseconds(1000),
                       .cpu = milliseconds(950),
                       .stages = {reading(read), encoding(encode)}})
        .verdict();
  };
  const auto encode = verdict_of(milliseconds(200), milliseconds(800));
  CHECK(encode.limit == Bottleneck::kCpu);
  CHECK(encode.stage == "encode");
  CHECK_THAT(encode.text, Catch::Contains("'encode'") && Catch::Contains("80 %"));
  // Copying from the page cache is CPU time, too.
  CHECK(verdict_of(milliseconds(800), milliseconds(200)).limit == Bottleneck::kCpu);
  CHECK(verdict_of(milliseconds(800), milliseconds(200)).stage == "read");
  const auto unmeasured = of_workers({.busy = milliseconds(1000), .cpu = milliseconds(900)});
  CHECK(unmeasured.verdict().limit == Bottleneck::kCpu);
  CHECK_THAT(unmeasured.verdict().text, Catch::Contains("not measured"));
}

TEST_CASE("the verdict reports a lack of cores when workers are ready and wait for one",
          "[loader][statistics]") {
  const auto verdict_of = [](milliseconds cpu, milliseconds cpu_wait) {
    return of_workers({.busy = milliseconds(1000),
                       .cpu = cpu,
                       .cpu_wait = cpu_wait,
                       .stages = {reading(milliseconds(700)), encoding(milliseconds(300))}})
        .verdict();
  };
  const auto starved = verdict_of(milliseconds(300), milliseconds(650));
  CHECK(starved.limit == Bottleneck::kCpuShortage);
  CHECK_THAT(starved.text, Catch::Contains("not getting CPU") && Catch::Contains("65 %") &&
                               Catch::Contains("fewer workers"));
  // A thread that waits for the disk is not ready to run.
  CHECK(verdict_of(milliseconds(300), milliseconds(50)).limit == Bottleneck::kStorage);
  CHECK(verdict_of(milliseconds(900), milliseconds(100)).limit == Bottleneck::kCpu);
  CHECK(energon::to_string(Bottleneck::kCpuShortage) == "cpu_shortage");
}

TEST_CASE("the verdict names the consumer when workers wait for it", "[loader][statistics]") {
  const WorkerStatistics worker{.busy = milliseconds(300),
                                .consumer_wait = milliseconds(700),
                                .cpu = milliseconds(300),
                                .stages = {reading(milliseconds(300))}};
  LoaderStatistics slow = of_workers(worker);
  slow.consumer.own_time = milliseconds(900);
  CHECK(slow.verdict().limit == Bottleneck::kConsumer);
  CHECK_THAT(slow.verdict().text, Catch::Contains("70 %"));
  // A consumer that waits itself is not the limit.
  slow.consumer.own_time = milliseconds(100);
  CHECK(slow.verdict().limit == Bottleneck::kCpu);
  // Without workers, the pipeline stops while the consumer works.
  LoaderStatistics alone = of_workers({.busy = milliseconds(300), .cpu = milliseconds(300)}, 1);
  alone.num_workers = 0;
  CHECK(alone.verdict().limit == Bottleneck::kCpu);
  alone.consumer.own_time = milliseconds(700);
  CHECK(alone.verdict().limit == Bottleneck::kConsumer);
}

TEST_CASE("without enough data there is no verdict", "[loader][statistics]") {
  CHECK(LoaderStatistics().verdict().limit == Bottleneck::kUnknown);
  LoaderStatistics few = of_workers({.busy = milliseconds(1000), .cpu = milliseconds(900)});
  few.consumer.batches = 9;
  CHECK(few.verdict().limit == Bottleneck::kUnknown);
  CHECK_THAT(few.verdict().text, Catch::Contains("not enough data yet"));
  CHECK(of_workers({.busy = milliseconds(40)}).verdict().limit == Bottleneck::kUnknown);
}

TEST_CASE("statistics as JSON have the verdict and all numbers", "[loader][statistics]") {
  LoaderStatistics statistics = of_workers({.batches = 50,
                                            .busy = milliseconds(1000),
                                            .cpu = milliseconds(950),
                                            .queue_depth = 2,
                                            .stages = {reading(milliseconds(900))}});
  statistics.failures = {{.stage = "read", .shard_name = "a\x01.tar", .samples = 3}};
  statistics.newest_reports = {report_of(2)};
  statistics.newest_reports[0].samples[0].index_in_shard.reset();
  const auto json = to_json(statistics);
  CHECK(json["verdict"]["limit"] == "cpu");
  CHECK(json["verdict"]["stage"] == "read");
  CHECK(json["workers"][1]["queue_depth"] == 2);
  CHECK(json["workers"][1]["stages"][0]["busy_seconds"] == 0.9);
  CHECK(json["failures"][0]["shard"] == "a\\x01.tar");
  CHECK(json["newest_reports"][0]["samples"][0]["index"].is_null());
  CHECK(json["newest_reports"][0]["samples"][1]["index"] == 1);
  CHECK(json["newest_reports"][0]["code"] == "corrupt_data");
}

TEST_CASE("runs add up by the names of stages", "[loader][statistics]") {
  WorkerStatistics sum{.batches = 1, .stages = {reading(milliseconds(10))}};
  add_run(sum, {.batches = 2,
                .busy = milliseconds(5),
                .queue_depth = 1,
                .stages = {encoding(milliseconds(3)), reading(milliseconds(7))}});
  CHECK(sum.batches == 3);
  CHECK(sum.queue_depth == 1);
  REQUIRE(sum.stages.size() == 2);
  CHECK(sum.stages[0].busy == milliseconds(17));
  CHECK(sum.stages[0].bytes == 100'000'000);
  CHECK(sum.stages[1].name == "encode");
}

TEST_CASE("the counters of a worker are read from its memory, and damage is bounded",
          "[loader][statistics]") {
  alignas(64) std::array<std::byte, sizeof(StatisticsBlock)> memory{};
  CHECK_THROWS_AS(energon::statistics_in(memory), Error);
  StatisticsBlock& block = energon::format_statistics(memory);
  REQUIRE(&energon::statistics_in(memory) == &block);
  energon::add_stage(block, "read").samples = 7;
  energon::add_stage(block, std::string(100, 'x')).failed = 1;
  auto worker = energon::read_statistics(block);
  REQUIRE(worker.stages.size() == 2);
  CHECK(worker.stages[0].name == "read");
  CHECK(worker.stages[0].samples == 7);
  CHECK(worker.stages[1].name == std::string(energon::kStageNameBytes, 'x'));

  for (int i = 0; i < 100; ++i) {
    energon::add_stage(block, "stage " + std::to_string(i)).skipped += 1;
  }
  worker = energon::read_statistics(block);
  REQUIRE(worker.stages.size() == energon::kMaxStages);
  CHECK(worker.stages.back().name == "(others)");
  CHECK(worker.stages.back().skipped == 100 - (energon::kMaxStages - 3));

  block.stage_count = 1'000'000;
  block.stages[0].name_size = 1'000'000;
  block.busy_ns = ~std::uint64_t{0};
  worker = energon::read_statistics(block);
  CHECK(worker.stages.size() == energon::kMaxStages);
  CHECK(worker.busy.count() > 0);
}

TEST_CASE("reports arrive unchanged, in messages of bounded size", "[loader][statistics]") {
  std::vector<FailureReport> reports = {report_of(1), report_of(0), report_of(3)};
  reports[1].is_shard_broken = true;
  const auto messages = energon::encode_reports(reports);
  REQUIRE(messages.size() == 1);
  const auto decoded = energon::decode_reports(messages[0]);
  REQUIRE(decoded.size() == 3);
  CHECK(to_string(decoded[2]) == to_string(reports[2]));
  CHECK(decoded[1].is_shard_broken);
  CHECK(decoded[2].consecutive == 3);
  CHECK(decoded[2].samples[2].index_in_shard == 2);
  CHECK(decoded[2].samples[2].bytes == energon::ByteRange{1024, 1024});

  std::size_t samples = 0;
  const auto large = energon::encode_reports(std::vector{report_of(20'000), report_of(1)});
  CHECK(large.size() > 2);
  for (const std::string& message : large) {
    CAPTURE(message);
    CHECK(message.size() < 300 * 1024);
    for (const FailureReport& part : energon::decode_reports(message)) {
      samples += part.samples.size();
    }
  }
  CHECK(samples == 20'001);
}

TEST_CASE("the detail of a report is sent once and completely", "[loader][statistics]") {
  std::vector<FailureReport> reports = {report_of(2), report_of(20'000), report_of(1),
                                        report_of(1)};
  reports[0].detail = std::string("a\0b", 3);
  reports[1].detail = std::string(energon::kMaxErrorDetailBytes, 'x');
  reports[2].detail = std::string(energon::kMaxErrorDetailBytes + 1, 'x');
  std::vector<std::string> details;
  for (const std::string& message : energon::encode_reports(reports)) {
    CAPTURE(message);
    CHECK(message.size() < std::size_t{600} << 10);
    for (FailureReport& part : energon::decode_reports(message)) {
      if (!part.detail.empty()) {
        details.push_back(std::move(part.detail));
      }
    }
  }
  CHECK(details == std::vector{reports[0].detail, reports[1].detail});
  CHECK(to_string(reports[0]) == to_string(report_of(2)));
}

TEST_CASE("a log of failures keeps the details of the newest", "[loader][statistics]") {
  energon::FailureLog log("");
  FailureReport report = report_of(1);
  report.detail = "detail";
  for (int i = 0; i < 100; ++i) {
    log.add(report);
  }
  LoaderStatistics statistics;
  log.fill(statistics);
  REQUIRE(statistics.newest_reports.size() == 100);
  CHECK(statistics.newest_reports[67].detail.empty());
  CHECK(statistics.newest_reports[68].detail == "detail");
  CHECK(statistics.newest_reports[99].detail == "detail");
}

TEST_CASE("a damaged message of reports is an error", "[loader][statistics]") {
  const std::string message = energon::encode_reports(std::vector{report_of(2)})[0];
  for (std::size_t size = 1; size < message.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(energon::decode_reports(message.substr(0, size)), Error);
  }
  std::string wrong_code = message;
  wrong_code[4 + 6] = 99;
  CHECK_THROWS_WITH(energon::decode_reports(wrong_code), Catch::Contains("error code"));
}
