// Where a run starts in its folder of checkpoints, or in another one.

#include "energon/autosave/resume_point.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/autosave/auto_saver.h"
#include "energon/autosave/checkpoint_folder.h"
#include "energon/checkpoint/job_state.h"
#include "io/error.h"
#include "io/file.h"
#include "tests/energon/autosave/auto_saver_fixture.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/error_of.h"

using energon::AutoSaveOptions;
using energon::ErrorCode;
using energon::testing::error_of;
using energon::testing::kSavedOptions;
using energon::testing::Labels;
using energon::testing::LoaderFixture;
using energon::testing::names_in;
using energon::testing::SavingJob;
using energon::testing::tail;

TEST_CASE("IBM-22 half-written checkpoints are skipped and named", "[autosave][ibm]") {
  const LoaderFixture fixture(kSavedOptions);
  const energon::WorkerConfig layout = {.world_size = 3};
  const std::string folder = fixture.folder().file("saved");
  const AutoSaveOptions options = {.folder = folder, .every_batches = 10};
  SavingJob whole(fixture, layout, options);
  whole.take(10);
  const auto expected = whole.take(10);
  const std::string last = folder + "/step_20/rank_2.state";
  const std::string content = energon::read_file(last);
  // As if the last rank had been killed before it could mark the checkpoint as complete.
  std::filesystem::remove(folder + "/step_20/COMPLETE");
  std::string reason;
  SECTION("a rank is missing") {
    std::filesystem::remove(last);
    reason = "rank_2.state";
  }
  SECTION("only the folder exists") {
    std::filesystem::remove_all(folder + "/step_20");
    std::filesystem::create_directory(folder + "/step_20");
    reason = "rank_0.state";
  }
  SECTION("a file is cut off") {
    fixture.folder().write("saved/step_20/rank_2.state", content.substr(0, content.size() / 2));
    reason = "truncated";
  }
  SECTION("a file is empty") {
    fixture.folder().write("saved/step_20/rank_2.state", "");
    reason = "not a saved loader state";
  }
  SECTION("a bit is flipped") {
    std::string flipped = content;
    flipped[flipped.size() / 2] ^= 1;
    fixture.folder().write("saved/step_20/rank_2.state", flipped);
    reason = "checksum";
  }
  SECTION("the ranks are at different steps") {
    std::filesystem::copy_file(folder + "/step_10/rank_2.state", last,
                               std::filesystem::copy_options::overwrite_existing);
    reason = "different steps of epoch 0: 10 at ranks 2, 20 at ranks 0, 1";
  }
  SECTION("a file belongs to another job") {
    SavingJob other(fixture, {.world_size = 3, .seed_offset = 5},
                    {.folder = fixture.folder().file("other"), .every_batches = 20});
    other.take(20);
    std::filesystem::copy_file(fixture.folder().file("other/step_20/rank_2.state"), last,
                               std::filesystem::copy_options::overwrite_existing);
    reason = "seed_offset";
  }
  SavingJob resumed(fixture, layout, options);
  CHECK(resumed.steps() == std::vector<std::int64_t>(3, 10));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CAPTURE(rank);
    REQUIRE(resumed.rank(rank).saver().ignored().size() == 1);
    CHECK_THAT(resumed.rank(rank).saver().ignored().front(),
               Catch::StartsWith(folder + "/step_20: ") && Catch::Contains(reason));
  }
  CHECK(resumed.take(10) == expected);  // which completes step 20 again
  CHECK(SavingJob(fixture, layout, options).steps() == std::vector<std::int64_t>(3, 20));
}

TEST_CASE("entries that cannot be checkpoints are skipped, named and kept", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const AutoSaveOptions options = {
      .folder = fixture.folder().file("saved"), .every_batches = 10, .keep = 1};
  SavingJob(fixture, {.world_size = 2}, options).take(10);
  fixture.folder().write("saved/step_1", "a file");
  fixture.folder().write("saved/step_2/rank_0.state/notes", "in a folder");
  fixture.folder().write("saved/step_100", "a file");
  fixture.folder().write("saved/step_101/rank_0.state/notes", "in a folder");
  SavingJob resumed(fixture, {.world_size = 2}, options);
  CHECK(resumed.steps() == std::vector<std::int64_t>(2, 10));
  REQUIRE(resumed.saver().ignored().size() == 2);
  CHECK_THAT(resumed.saver().ignored()[0],
             Catch::StartsWith(options.folder + "/step_101: ") &&
                 Catch::Contains("expected a file for the state of a rank, found a folder"));
  CHECK_THAT(resumed.saver().ignored()[1],
             Catch::StartsWith(options.folder + "/step_100: ") &&
                 Catch::Contains("expected a folder for a checkpoint, found a file"));
  resumed.take(10);
  CHECK_THAT(names_in(options.folder),
             Catch::UnorderedEquals(std::vector<std::string>{"JOB", "ranks", "step_1", "step_2",
                                                             "step_20", "step_100", "step_101"}));
}

TEST_CASE("only unusable checkpoints are an error, unless the run starts over", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const energon::WorkerConfig layout = {.world_size = 2};
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 5};
  SavingJob whole(fixture, layout, options);
  const auto expected = whole.take(5);
  const std::string last = options.folder + "/step_5/rank_1.state";
  const std::string content = energon::read_file(last);
  fixture.folder().write("saved/step_5/rank_1.state", content.substr(0, content.size() / 2));
  std::filesystem::remove(options.folder + "/step_5/COMPLETE");
  for (const std::string load_from : {"", "/no/such/folder"}) {
    CAPTURE(load_from);
    options.load_from = load_from;
    CHECK_THAT(error_of([&] { SavingJob(fixture, layout, options); }, ErrorCode::kNotFound),
               Catch::Contains("start_over") && Catch::Contains("--start-over") &&
                   Catch::Contains("step_5: ") && Catch::Contains("truncated"));
  }
  options.load_from = "";
  // Nothing was overwritten.
  CHECK(std::filesystem::exists(options.folder + "/step_5/COMPLETE"));
  CHECK(std::filesystem::exists(options.folder + "/step_5/rank_0.state"));
  options.start_over = true;
  SavingJob fresh(fixture, layout, options);
  CHECK_FALSE(fresh.saver().restored_from());
  CHECK(fresh.steps() == std::vector<std::int64_t>(2, 0));
  CHECK(fresh.take(5) == expected);
  options.start_over = false;
  CHECK(SavingJob(fixture, layout, options).steps() == std::vector<std::int64_t>(2, 5));
}

TEST_CASE("a run whose first save was interrupted starts again at its start", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const energon::WorkerConfig layout = {.world_size = 2};
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 5};
  const auto expected = SavingJob(fixture, layout, options).take(10);
  const std::string step = options.folder + "/step_5";
  std::filesystem::remove_all(options.folder + "/step_10");
  std::filesystem::remove(step + "/COMPLETE");
  SECTION("one rank had written its file") { std::filesystem::remove(step + "/rank_1.state"); }
  SECTION("only the other rank had") { std::filesystem::remove(step + "/rank_0.state"); }
  SECTION("no rank had") {
    std::filesystem::remove(step + "/rank_0.state");
    std::filesystem::remove(step + "/rank_1.state");
  }
  for (int start = 0; start < 3; ++start) {  // killed twice more before the next save
    CAPTURE(start);
    SavingJob resumed(fixture, layout, options);
    CHECK(resumed.steps() == std::vector<std::int64_t>(2, 0));
    REQUIRE(resumed.saver().ignored().size() == 1);
    CHECK_THAT(resumed.saver().ignored().front(), Catch::StartsWith(step + ": "));
    if (start == 2) {
      CHECK(resumed.take(10) == expected);
    }
  }
  CHECK(SavingJob(fixture, layout, options).steps() == std::vector<std::int64_t>(2, 10));
}

TEST_CASE("a run that starts over overwrites complete checkpoints, also with other settings",
          "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const LoaderFixture other(kSavedOptions, {10, 10, 10});
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 5};
  SavingJob(fixture, {.world_size = 2}, options).take(10);
  options.start_over = true;
  SavingJob fresh(other, {.world_size = 2}, options);
  options.start_over = false;
  // The old checkpoints are set aside immediately: a restart does not return to the old data.
  CHECK_THAT(
      error_of([&] { SavingJob(fixture, {.world_size = 2}, options); }, ErrorCode::kNotFound),
      Catch::Contains("step_10: the run started over"));
  const auto taken = fresh.take(5);
  SavingJob resumed(other, {.world_size = 2}, options);
  CHECK(resumed.steps() == std::vector<std::int64_t>(2, 5));
  CHECK(resumed.take(5) == fresh.take(5));
}

TEST_CASE("a run starts at the requested step, and later checkpoints do not count", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const energon::WorkerConfig layout = {.world_size = 2};
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  SavingJob whole(fixture, layout, options);
  whole.take(3);
  const auto expected = whole.take(3);
  whole.take(3);
  options.at_step = 4;
  CHECK_THAT(error_of([&] { SavingJob(fixture, layout, options); }, ErrorCode::kNotFound),
             Catch::Contains("checkpoints of these steps are complete: 9, 6, 3"));
  options.at_step = 3;
  SavingJob back(fixture, layout, options);
  CHECK(back.steps() == std::vector<std::int64_t>(2, 3));
  CHECK(back.saver().restored_from() == options.folder + "/step_3");
  options.at_step.reset();
  // A restart before the first save of the run, and one after it.
  CHECK(SavingJob(fixture, layout, options).steps() == std::vector<std::int64_t>(2, 3));
  CHECK(back.take(3) == expected);
  CHECK(SavingJob(fixture, layout, options).steps() == std::vector<std::int64_t>(2, 6));
  options.at_step = 0;
  CHECK(SavingJob(fixture, layout, options).steps() == std::vector<std::int64_t>(2, 0));
}

TEST_CASE("steps that no run reaches are refused", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  SavingJob(fixture, {}, options).take(3);
  for (const char* name :
       {"step_9223372036854775807", "step_4398046511105", "step_99999999999999999999999"}) {
    CAPTURE(name);
    const std::string path = options.folder + "/" + name;
    std::filesystem::copy(options.folder + "/step_3", path,
                          std::filesystem::copy_options::recursive);
    CHECK_THAT(error_of([&] { SavingJob(fixture, {}, options); }, ErrorCode::kCorruptData),
               Catch::Contains(name));
    std::filesystem::remove_all(path);
  }
  std::filesystem::rename(options.folder + "/step_3", options.folder + "/step_4398046511104");
  SavingJob last(fixture, {}, options);
  CHECK_THAT(error_of([&] { last.rank(0).next(); }, ErrorCode::kResourceExhausted),
             Catch::Contains("4398046511104 steps"));
}

TEST_CASE("a run continues from a folder whose checkpoints have no marks yet", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  SavingJob whole(fixture, {.world_size = 2}, options);
  whole.take(6);
  for (const char* name : {"/JOB", "/ranks", "/step_3/COMPLETE", "/step_6/COMPLETE"}) {
    CAPTURE(name);
    REQUIRE(std::filesystem::remove_all(options.folder + name) > 0);
  }
  options.keep = 2;
  SavingJob resumed(fixture, {.world_size = 2}, options);
  CHECK(resumed.steps() == std::vector<std::int64_t>(2, 6));
  CHECK(energon::read_mark(options.folder + "/step_6")->complete);
  resumed.take(3);
  CHECK(names_in(options.folder) == std::vector<std::string>{"ranks", "step_6", "step_9"});
}

TEST_CASE("a loader loads from a folder, a checkpoint, or a file of a rank or a job",
          "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const energon::WorkerConfig layout = {.world_size = 2};
  const std::string folder = fixture.folder().file("saved");
  SavingJob first(fixture, layout, {.folder = folder, .every_batches = 10});
  first.take(10);
  const auto middle = first.take(10);
  const auto end = first.take(5);
  const std::string job_file = fixture.folder().file("job.state");
  write_job_state(job_file, energon::read_checkpoint(folder + "/step_10"));

  const auto loaded = [&](const std::string& load_from) {
    static int number = 0;
    SavingJob job(
        fixture, layout,
        {.folder = fixture.folder().file(fmt::format("run{}", number++)), .load_from = load_from});
    CHECK(job.saver().step() == 0);
    return job.take(5);
  };
  CHECK(loaded(folder) == end);
  const std::vector<Labels> from_10 = {tail(middle[0], 0, 5), tail(middle[1], 0, 5)};
  CHECK(loaded(folder + "/step_10") == from_10);
  CHECK(loaded(job_file) == from_10);
  // The file of one rank can only be loaded by that rank.
  CHECK_THROWS_WITH(loaded(folder + "/step_10/rank_0.state"), Catch::Contains("rank_0.state"));
  CHECK_THROWS_WITH(loaded("/no/such/folder"), Catch::Contains("/no/such/folder"));
  for (const char* name : {"/rank_1.state", "/COMPLETE"}) {
    std::filesystem::remove(folder + "/step_10" + name);
    std::filesystem::remove(folder + "/step_20" + name);
  }
  CHECK_THROWS_WITH(loaded(folder), Catch::Contains("no complete checkpoint to load from") &&
                                        Catch::Contains("step_20/rank_1.state") &&
                                        Catch::Contains("step_10/rank_1.state"));
}

TEST_CASE("another layout continues from the folder, rescaled", "[autosave][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  const std::string folder = fixture.folder().file("saved");
  const auto in_order = [](const std::vector<Labels>& ranks) {
    Labels labels;
    for (std::size_t step = 0; step < ranks.front().size(); ++step) {
      for (const Labels& rank : ranks) {
        labels.push_back(rank[step]);
      }
    }
    return labels;
  };
  const energon::WorkerConfig wide = {.world_size = 4, .num_workers = 0, .logical_shards = 12};
  SavingJob undisturbed(fixture, wide, {.folder = fixture.folder().file("undisturbed")});
  undisturbed.take(30);
  const Labels expected = in_order(undisturbed.take(30));

  const AutoSaveOptions options = {.folder = folder, .every_batches = 10};
  SavingJob(fixture, wide, options).take(30);
  SavingJob three(fixture, {.world_size = 3, .num_workers = 2, .logical_shards = 12}, options);
  CHECK(three.steps() == std::vector<std::int64_t>(3, 30));
  const Labels after = in_order(three.take(20));
  CHECK(after == Labels(expected.begin(), expected.begin() + 60));
  // step_30 holds files of four ranks, step_50 of three.
  SavingJob six(fixture, {.world_size = 6, .logical_shards = 12}, options);
  CHECK(six.saver().restored_from() == folder + "/step_50");
  CHECK(in_order(six.take(10)) == Labels(expected.begin() + 60, expected.begin() + 120));
}
