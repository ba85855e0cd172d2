// Checkpoints and ranks that are damaged, or have other data, settings or versions.

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/autosave/auto_saver.h"
#include "energon/autosave/checkpoint_folder.h"
#include "energon/checkpoint/job_state.h"
#include "energon/state/savable.h"
#include "io/error.h"
#include "io/file.h"
#include "tests/energon/autosave/auto_saver_fixture.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/error_of.h"

using energon::AutoSaveOptions;
using energon::AutoSavingLoader;
using energon::Error;
using energon::ErrorCode;
using energon::LoaderOptions;
using energon::SavableDataLoaderState;
using energon::testing::error_of;
using energon::testing::kSavedOptions;
using energon::testing::LoaderFixture;
using energon::testing::SavingJob;

TEST_CASE(
    "a rank whose file of a complete checkpoint is damaged does not start elsewhere on its own",
    "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const energon::WorkerConfig layout = {.world_size = 2};
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  SavingJob(fixture, layout, options).take(6);
  const std::string file = options.folder + "/step_6/rank_1.state";
  std::string reason;
  SECTION("missing") {
    std::filesystem::remove(file);
    reason = "rank_1.state";
  }
  SECTION("cut off") {
    const std::string content = energon::read_file(file);
    fixture.folder().write("saved/step_6/rank_1.state", content.substr(0, content.size() / 2));
    reason = "truncated";
  }
  SECTION("of another step") {
    std::filesystem::copy_file(options.folder + "/step_3/rank_1.state", file,
                               std::filesystem::copy_options::overwrite_existing);
    reason = "its file belongs to step 3 of epoch 0, the checkpoint to step 6";
  }
  SECTION("of another job") {
    SavingJob(fixture, {.world_size = 2, .seed_offset = 5},
              {.folder = fixture.folder().file("other"), .every_batches = 6})
        .take(6);
    std::filesystem::copy_file(fixture.folder().file("other/step_6/rank_1.state"), file,
                               std::filesystem::copy_options::overwrite_existing);
    reason = "its file belongs to another job";
  }
  SECTION("of another rank") {
    std::filesystem::copy_file(options.folder + "/step_6/rank_0.state", file,
                               std::filesystem::copy_options::overwrite_existing);
    reason = "its file belongs to rank 0";
  }
  const auto begin = [&](int rank) {
    AutoSavingLoader loader(fixture.pipeline(),
                            LoaderOptions{.worker_config = {.rank = rank, .world_size = 2}},
                            options);
    return loader.saver().step();
  };
  CHECK(begin(0) == 6);
  try {
    begin(1);
    FAIL("it began");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Catch::Contains("the checkpoint of step 6 is complete") &&
                                 Catch::Contains(reason) && Catch::Contains("--at-step"));
  }
  options.at_step = 3;
  CHECK(begin(0) == 3);
  CHECK(begin(1) == 3);
}

TEST_CASE("ranks belong to one job if the side files found by both are the same", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  SavingJob(fixture, {.world_size = 2}, options).take(3);
  const std::string file = options.folder + "/step_3/rank_1.state";
  const std::string mark_file = options.folder + "/step_3/COMPLETE";
  const auto begin = [&] {
    AutoSavingLoader loader(fixture.pipeline(),
                            LoaderOptions{.worker_config = {.rank = 1, .world_size = 2}}, options);
    return loader.saver().step();
  };
  SavableDataLoaderState state = energon::read_loader_state(file);
  REQUIRE(energon::values_of_member(state.config, "indexes").size() == 1);
  SECTION("only the mark has them") {
    state.config = energon::without_side_files(state.config);
    energon::write_loader_state(file, state);
    CHECK(begin() == 3);
  }
  SECTION("only the file has them") {
    auto mark = nlohmann::ordered_json::parse(energon::read_file(mark_file));
    mark["side_files"].erase("indexes");
    fixture.folder().write("saved/step_3/COMPLETE", mark.dump());
    CHECK(begin() == 3);
  }
  SECTION("both have them, but different ones") {
    auto mark = nlohmann::ordered_json::parse(energon::read_file(mark_file));
    mark["side_files"]["indexes"] = "0123456789abcdef";
    fixture.folder().write("saved/step_3/COMPLETE", mark.dump());
    CHECK_THAT(error_of(begin, ErrorCode::kCorruptData), Catch::Contains("to another job"));
  }
}

TEST_CASE("ranks with other data or settings are detected before the first checkpoint",
          "[autosave][fork]") {
  const LoaderFixture fixture(kSavedOptions);
  const LoaderFixture other(kSavedOptions, {2, 2, 3, 4, 10, 10, 10, 10, 3});
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  const auto rank = [&](const LoaderFixture& data, energon::WorkerConfig layout) {
    return std::make_unique<AutoSavingLoader>(data.pipeline(),
                                              LoaderOptions{.worker_config = layout}, options);
  };
  const auto first = rank(fixture, {.rank = 0, .world_size = 2});
  CHECK_THAT(error_of([&] { rank(other, {.rank = 1, .world_size = 2}); }, ErrorCode::kMismatch),
             Catch::Contains("a rank that started in this folder") &&
                 Catch::Contains("3 samples") && Catch::Contains("--start-over"));
  CHECK_THAT(error_of([&] { rank(fixture, {.rank = 1, .world_size = 2, .num_workers = 3}); },
                      ErrorCode::kMismatch),
             Catch::Contains("num_workers"));
  // A rank that starts over overwrites the file of an earlier start, so ranks compare once more at
  // the first checkpoint.
  options.start_over = true;
  const auto second = rank(other, {.rank = 1, .world_size = 2});
  first->next();
  first->next();
  CHECK_THAT(error_of([&] { first->next(); }, ErrorCode::kMismatch),
             Catch::Contains("a rank that started in this folder"));
  CHECK_FALSE(std::filesystem::exists(options.folder + "/step_3/rank_0.state"));
}

TEST_CASE("checkpoints of other data are refused, not skipped", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const LoaderFixture other(kSavedOptions, {10, 10});
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 1};
  SavingJob(fixture, {}, options).take(1);
  CHECK_THROWS_WITH(SavingJob(other, {}, options),
                    Catch::Contains("shards") && Catch::Contains("step_1"));
}

TEST_CASE("with a Comm, rank 0 chooses, and all go back if one rank's file is damaged",
          "[autosave][fork]") {
  const LoaderFixture fixture(kSavedOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  SavingJob(fixture, {.world_size = 3}, options).take(9);
  fixture.folder().write("saved/step_9/rank_2.state", "");
  const auto begin = [&](const AutoSaveOptions& with) {
    return energon::testing::texts(energon::testing::run_group(3, [&](energon::Comm& comm) {
      AutoSaveOptions own = with;
      own.comm = &comm;
      AutoSavingLoader loader(
          fixture.pipeline(),
          LoaderOptions{.worker_config = {.rank = comm.rank(), .world_size = 3}}, own);
      return fmt::format("{}", loader.saver().step());
    }));
  };
  using Texts = std::vector<std::string>;
  CHECK(begin(options) == Texts(3, "6"));
  CHECK_FALSE(energon::read_mark(options.folder + "/step_9")->complete);
  AutoSaveOptions back = options;
  back.at_step = 3;
  CHECK(begin(back) == Texts(3, "3"));
  for (const std::string step : {"3", "6"}) {
    std::filesystem::remove(options.folder + "/step_" + step + "/rank_1.state");
  }
  for (const std::string& text : begin(options)) {
    CAPTURE(text);
    CHECK_THAT(text, Catch::StartsWith("error not_found") && Catch::Contains("--start-over"));
  }
  back = options;
  back.start_over = true;
  CHECK(begin(back) == Texts(3, "0"));
}

TEST_CASE("with a Comm, ranks that differ are refused on all ranks at once", "[autosave][fork]") {
  const LoaderFixture fixture(kSavedOptions);
  const LoaderFixture other(kSavedOptions, {2, 2, 3, 4, 10, 10, 10, 10, 3});
  const auto reports = energon::testing::run_group(3, [&](energon::Comm& comm) {
    const LoaderFixture& data = comm.rank() == 2 ? other : fixture;
    AutoSavingLoader loader(data.pipeline(),
                            LoaderOptions{.worker_config = {.rank = comm.rank(), .world_size = 3}},
                            {.folder = fixture.folder().file("saved"), .comm = &comm});
    return std::string("began");
  });
  for (const auto& report : reports) {
    CAPTURE(report.text);
    CHECK_THAT(report.text, Catch::StartsWith("error mismatch") && Catch::Contains("rank 2: ") &&
                                Catch::Contains("3 samples"));
    CHECK(report.took < std::chrono::seconds(10));
  }
}
