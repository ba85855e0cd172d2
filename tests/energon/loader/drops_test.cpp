// Samples that a policy leaves out: they are reported in order with the batches, and a restore is
// exact even if they are usable later.

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/loader/basic_data_loader.h"
#include "energon/loader/failure_log.h"
#include "io/error.h"
#include "io/file.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/child_runner.h"

using energon::CallContext;
using energon::ErrorPolicies;
using energon::FailureAction;
using energon::LoaderOptions;
using energon::LoaderStatistics;
using energon::MapFunction;
using energon::Sample;
using energon::SavableDataLoader;
using energon::TrainOptions;
using energon::testing::numbered_dataset;
using energon::testing::numbers;
using energon::testing::TempDir;
using Numbers = std::vector<std::int64_t>;

namespace {

bool is_bad(std::int64_t number) { return number % 5 == 3 || (number >= 40 && number < 50); }

// Fails on bad samples, unless the file `healed` exists.
MapFunction fails_until(const std::string& healed) {
  return [healed](Sample sample, CallContext&) {
    if (is_bad(numbers(sample).front()) && !std::filesystem::exists(healed)) {
      throw std::runtime_error("bad sample");
    }
    return sample;
  };
}

ErrorPolicies skip() { return {.standard = {.action = FailureAction::kSkip}}; }

// 55 samples in order, in batches of two; every fifth one and a block of ten are bad until healed.
class Picky {
 public:
  energon::PipelineFactory pipeline() const {
    return energon::val_pipeline(
        {dataset_}, {.task_encoder = {.encode_sample = fails_until(folder_.file("healed"))},
                     .batch_size = 2,
                     .errors = skip()});
  }
  std::unique_ptr<SavableDataLoader> loader(LoaderOptions options) const {
    return std::make_unique<SavableDataLoader>(pipeline(), options);
  }
  void heal() const { folder_.write("healed", ""); }
  void fall_ill() const { std::filesystem::remove(folder_.file("healed")); }
  const TempDir& folder() const { return folder_; }

 private:
  TempDir folder_;
  std::shared_ptr<const energon::Webdataset> dataset_ =
      numbered_dataset(folder_, energon::testing::kTens);
};

LoaderOptions with_workers(int workers) {
  return {.worker_config = {.num_workers = workers}, .checkpoint_every_batches = 7};
}

// The numbers of one epoch from this point on.
Numbers rest_of_epoch(SavableDataLoader& loader) {
  Numbers result;
  while (const auto batch = loader.next()) {
    const Numbers more = numbers(*batch);
    result.insert(result.end(), more.begin(), more.end());
  }
  return result;
}

Numbers reported(const LoaderStatistics& statistics) {
  Numbers result;
  for (const auto& report : statistics.newest_reports) {
    for (const auto& sample : report.samples) {
      result.push_back(std::stoll(sample.key));
    }
  }
  return result;
}

Numbers bad_below(std::int64_t end) {
  Numbers result;
  for (std::int64_t i = 0; i < end; ++i) {
    if (is_bad(i)) {
      result.push_back(i);
    }
  }
  return result;
}

}  // namespace

TEST_CASE("reports cover exactly what preceded the delivered batches", "[loader][drops][fork]") {
  for (const int workers : {0, 1}) {
    CAPTURE(workers);
    const Picky picky;
    const auto loader = picky.loader(with_workers(workers));
    while (const auto batch = loader->next()) {
      CHECK(reported(loader->stats()) == bad_below(numbers(*batch).back()));
    }
    const LoaderStatistics stats = loader->stats();
    CHECK(reported(stats) == bad_below(55));
    REQUIRE(stats.failures.size() == 6);
    CHECK(stats.failures[4].stage == "encode_sample");
    CHECK(stats.failures[4].shard_name == "shard-004.tar");
    CHECK(stats.failures[4].samples == 10);
    const auto& stages = stats.workers.at(0).stages;
    const auto stage = std::find_if(stages.begin(), stages.end(), [](const auto& entry) {
      return entry.name == "encode_sample";
    });
    REQUIRE(stage != stages.end());
    CHECK(stage->failed == bad_below(55).size());
    CHECK_THAT(to_string(stats.newest_reports[0]), Catch::Contains("bad sample"));
  }
}

TEST_CASE("a state saved at any batch resumes at the right sample, healed or not",
          "[loader][drops][fork]") {
  const Picky picky;
  const auto loader = picky.loader(with_workers(1));
  std::int64_t next = 0;  // the sample after the last one delivered
  const auto check_resumed = [&](bool in_next_epoch) {
    const auto state = loader->save_state_rank();
    Numbers ill;
    Numbers healthy;
    for (std::int64_t i = in_next_epoch ? 55 : next; i < 55; ++i) {
      healthy.push_back(i);
      if (!is_bad(i)) {
        ill.push_back(i);
      }
    }
    INFO("resumed at sample " << next);
    const auto same = picky.loader(with_workers(1));
    same->restore_state_rank(state);
    if (in_next_epoch) {
      CHECK(rest_of_epoch(*same).front() == 0);
    } else {
      CHECK(rest_of_epoch(*same) == ill);
      picky.heal();
      const auto healed = picky.loader(with_workers(1));
      healed->restore_state_rank(state);
      CHECK(rest_of_epoch(*healed) == healthy);
      CHECK(rest_of_epoch(*healed).size() == 55);
      picky.fall_ill();
    }
  };
  check_resumed(false);
  while (const auto batch = loader->next()) {
    next = numbers(*batch).back() + 1;
    check_resumed(false);
  }
  check_resumed(true);
}

TEST_CASE("a restore gets past an epoch that ends with bad samples, healed or not",
          "[loader][drops][fork]") {
  // Worker 4 of 6 has a shard with only bad samples, so it makes no batch.
  const Picky picky;
  LoaderOptions options = with_workers(6);
  const auto loader = picky.loader(options);
  const std::size_t in_epoch = rest_of_epoch(*loader).size();
  CHECK(in_epoch == 55 - bad_below(55).size());
  const auto state = loader->save_state_rank();
  loader->next();
  const auto later = loader->save_state_rank();
  picky.heal();
  const auto healed = picky.loader(options);
  healed->restore_state_rank(state);
  CHECK(rest_of_epoch(*healed).size() == 55);
  healed->stop();
  healed->restore_state_rank(later);
  CHECK(rest_of_epoch(*healed).size() == 53);
}

TEST_CASE("statistics add up over stops, and count what was delivered",
          "[loader][statistics][fork]") {
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const Picky picky;
    const auto loader = picky.loader(with_workers(workers));
    CHECK(loader->stats().verdict().limit == energon::Bottleneck::kUnknown);
    CHECK(loader->stats().consumer.batches == 0);
    loader->next();
    loader->next();
    loader->stop();
    const LoaderStatistics stopped = loader->stats();
    CHECK(stopped.consumer.batches == 2);
    CHECK(stopped.consumer.samples == 4);
    CHECK(stopped.consumer.bytes > 0);
    CHECK(stopped.workers.size() == static_cast<std::size_t>(std::max(workers, 1)));
    rest_of_epoch(*loader);
    const LoaderStatistics after = loader->stats();
    std::uint64_t made = 0;
    for (std::size_t i = 0; i < after.workers.size(); ++i) {
      CAPTURE(i);
      made += after.workers[i].batches;
      CHECK(after.workers[i].queue_depth == 0);
      CHECK(after.workers[i].busy > stopped.workers[i].busy);
      CHECK(after.workers[i].cpu.count() > 0);
    }
    CHECK(made >= after.consumer.batches);  // batches in flight at stop() are made again
    CHECK(after.consumer.worker_wait.count() > 0);
    CHECK(after.consumer.own_time.count() > 0);
  }
}

TEST_CASE("the statistics of a dead worker can still be read", "[loader][statistics][fork]") {
  const Picky picky;
  const auto loader = picky.loader(with_workers(1));
  loader->next();
  loader->next();
  ::kill(loader->worker_pids().at(0), SIGKILL);
  CHECK_THROWS_AS(
      [&] {
        for (int i = 0; i < 100; ++i) {
          loader->next();
        }
      }(),
      energon::Error);
  CHECK(loader->stats().workers.at(0).batches >= 2);
}

TEST_CASE("a basic loader has the statistics of its last iteration", "[loader][statistics][fork]") {
  const Picky picky;
  const energon::BasicDataLoader loader(picky.pipeline(), with_workers(1));
  CHECK(loader.stats().consumer.batches == 0);
  {
    auto first = loader.iterate();
    first.next();
    CHECK(loader.stats().consumer.batches == 1);
    auto second = loader.iterate();
    second.next();
    second.next();
    CHECK(loader.stats().consumer.batches == 2);
    CHECK(first.stats().consumer.batches == 1);
    second = loader.iterate();
    CHECK(loader.stats().consumer.batches == 0);
    second.next();
  }
  CHECK(loader.stats().consumer.batches == 1);
}

TEST_CASE("a stage that fails endlessly still sends its reports", "[loader][drops][fork]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {1000});
  SavableDataLoader loader(
      train_pipeline(dataset,
                     {.task_encoder = {.encode_sample = [](Sample, CallContext&) -> Sample {
                        throw std::runtime_error("no");
                      }},
                      .errors = {.standard = {.action = FailureAction::kSkip, .tolerance = 2500}}}),
      {.worker_config = {.num_workers = 1}});
  CHECK_THROWS_WITH(loader.next(), Catch::Contains("2500 samples in a row"));
  const LoaderStatistics stats = loader.stats();
  REQUIRE(stats.failures.size() == 1);
  CHECK(stats.failures[0].samples == 2499);
  CHECK(stats.newest_reports.size() == 1000);
  CHECK(stats.newest_reports.back().consecutive == 2499);
}

TEST_CASE("a quarantine line truncated by a crash does not swallow the next one",
          "[loader][drops]") {
  const TempDir folder;
  const std::string path = folder.write("bad.jsonl", "{\"dataset\":\"/d\",\"sha");
  energon::FailureReport report{.stage = "read", .cause = "a\nb"};
  report.samples = {{.dataset_path = "/d", .shard_name = "s.tar", .index_in_shard = 4}};
  energon::QuarantineWriter writer(path);
  writer.append(report);
  report.samples.push_back(report.samples[0]);  // it is unknown which of them is bad
  writer.append(report);
  report.is_shard_broken = true;
  writer.append(report);
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  REQUIRE(lines.size() == 3);
  CHECK(nlohmann::json::parse(lines[1]).at("index") == 4);
  CHECK_FALSE(nlohmann::json::parse(lines[2]).contains("index"));
  CHECK_THROWS_WITH(energon::QuarantineWriter(folder.file("none/bad.jsonl")).append(report),
                    Catch::Contains("none/bad.jsonl"));
}

TEST_CASE("two processes write one quarantine file, and every line is complete",
          "[loader][drops][fork]") {
  constexpr int kLines = 400;
  const TempDir folder;
  const std::string path = folder.file("bad.jsonl");
  // Lines of several pages, of different lengths.
  const auto write = [&](const std::string& shard) {
    energon::QuarantineWriter writer(path);
    energon::FailureReport report{.stage = "read"};
    for (int i = 0; i < kLines; ++i) {
      report.cause = std::string(static_cast<std::size_t>(i) * 37 % 9000, shard.front());
      report.samples = {{.dataset_path = "/d", .shard_name = shard, .index_in_shard = i}};
      writer.append(report);
    }
    return 0;
  };
  const pid_t other = energon::testing::start_child([&] { return write("a.tar"); });
  write("b.tar");
  REQUIRE(energon::testing::await_child(other, std::chrono::seconds(60)).exit_code == 0);
  std::map<std::string, std::vector<std::int64_t>> indexes;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    CAPTURE(text);
    const auto line = nlohmann::json::parse(text);
    const auto index = line.at("index").get<std::int64_t>();
    indexes[line.at("shard").get<std::string>()].push_back(index);
    CHECK(line.at("cause").get<std::string>().size() ==
          static_cast<std::size_t>(index * 37 % 9000));
  }
  std::vector<std::int64_t> all(kLines);
  std::iota(all.begin(), all.end(), 0);
  CHECK(indexes["a.tar"] == all);
  CHECK(indexes["b.tar"] == all);
}

TEST_CASE("the quarantine file has a line for each sample that was left out",
          "[loader][drops][fork]") {
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const Picky picky;
    const std::string path = picky.folder().file("bad.jsonl");
    LoaderOptions options = with_workers(workers);
    options.quarantine_file = path;
    const auto loader = picky.loader(options);
    loader->next();
    loader->stop();
    CHECK_FALSE(std::filesystem::exists(path));
    rest_of_epoch(*loader);
    std::set<std::int64_t> keys;
    std::ifstream file(path);
    for (std::string text; std::getline(file, text);) {
      CAPTURE(text);
      const auto line = nlohmann::json::parse(text);
      keys.insert(std::stoll(line.at("key").get<std::string>()));
      CHECK(line.at("dataset") == picky.folder().path());
      CHECK(line.at("index") == std::stoll(line.at("key").get<std::string>()) % 10);
      CHECK(line.at("bytes").size() == 2);
      CHECK(line.at("stage") == "encode_sample");
      CHECK_THAT(line.at("cause").get<std::string>(), Catch::Contains("bad sample"));
    }
    const Numbers bad = bad_below(55);
    CHECK(keys == std::set<std::int64_t>(bad.begin(), bad.end()));
  }
}

TEST_CASE("an epoch without usable samples on a rank is empty there, and counted",
          "[loader][drops][fork]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {12});
  // Two ranks with six samples each. All samples of the second rank fail.
  const int workers = GENERATE(0, 1, 3);
  const bool is_training = GENERATE(false, true);
  CAPTURE(workers, is_training);
  const energon::TaskEncoder encoder = {.encode_sample = [](Sample sample, CallContext&) -> Sample {
    if (numbers(sample).front() >= 6) {
      throw std::runtime_error("no");
    }
    return sample;
  }};
  const auto make =
      is_training
          ? energon::train_pipeline(
                {dataset},
                {.task_encoder = encoder, .batch_size = 2, .repeat = false, .errors = skip()})
          : energon::val_pipeline({dataset},
                                  {.task_encoder = encoder, .batch_size = 2, .errors = skip()});
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    SavableDataLoader loader(
        make, {.worker_config = {.rank = rank, .world_size = 2, .num_workers = workers}});
    for (int epoch = 0; epoch < 3; ++epoch) {
      CAPTURE(epoch);
      std::size_t samples = 0;
      while (const auto batch = loader.next()) {
        samples += batch->keys.size();
      }
      CHECK(samples == (rank == 0 ? 6 : 0));
      CHECK(loader.epoch() == epoch + 1);
      CHECK(loader.stats().consumer.lost_epochs ==
            static_cast<std::uint64_t>(rank == 0 ? 0 : epoch + 1));
      loader.stop();
      loader.restore_state_rank(loader.save_state_rank());
    }
    if (rank == 1) {
      CHECK(loader.stats().failures.at(0).samples == 18);
    }
  }
}

TEST_CASE("a loop over epochs without usable samples is an error", "[loader][drops][fork]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {12});
  const auto make = energon::train_pipeline(
      {dataset}, {.task_encoder = {.encode_sample = [](Sample, CallContext&) -> Sample {
                    throw std::runtime_error("no");
                  }},
                  .repeat = false,
                  .errors = skip()});
  for (const int workers : {0, 1, 3}) {
    CAPTURE(workers);
    SavableDataLoader loader(make, {.worker_config = {.num_workers = workers},
                                    .epoch_policy = energon::EpochPolicy::kLoop});
    CHECK_THROWS_WITH(loader.next(),
                      Catch::Contains("no sample in this epoch") && Catch::Contains("12 failures"));
    CHECK(loader.stats().failures.at(0).samples == 12);
  }
}

TEST_CASE("an unreadable dataset does not hide one that is drawn rarely", "[loader][drops]") {
  const TempDir broken_folder;
  const TempDir folder;
  const auto broken = numbered_dataset(broken_folder, {5});
  const auto whole = numbered_dataset(folder, {5});
  std::filesystem::remove(broken->shards().shards.front().tar_path);
  energon::PipelineData data;
  data.mixing = energon::Mixing::kWeighted;
  data.leaves = {{.dataset = broken, .length = 5, .weight = 500}, {.dataset = whole, .length = 5}};
  ErrorPolicies errors = skip();
  errors.standard.tolerance = 0;
  SavableDataLoader loader(energon::train_pipeline(data, {.errors = errors}));
  for (int i = 0; i < 5; ++i) {
    CAPTURE(i);
    CHECK(loader.next());
  }
  // Nor does it hide that no dataset can be read.
  std::filesystem::remove(whole->shards().shards.front().tar_path);
  SavableDataLoader nothing(energon::train_pipeline(data, {.errors = errors}));
  CHECK_THROWS_WITH(nothing.next(), Catch::Contains("although they include every sample"));
}
