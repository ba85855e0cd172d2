// Ranks that do not start at the same time, and the marks by which they notice each other.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/autosave/auto_saver.h"
#include "energon/autosave/checkpoint_folder.h"
#include "energon/autosave/resume_point.h"
#include "io/file.h"
#include "tests/energon/autosave/auto_saver_fixture.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/temp_dir.h"

using energon::AutoSaveOptions;
using energon::AutoSavingLoader;
using energon::LoaderOptions;
using energon::testing::kSavedOptions;
using energon::testing::label;
using energon::testing::Labels;
using energon::testing::LoaderFixture;
using energon::testing::SavingJob;
using energon::testing::TempDir;

TEST_CASE("ranks that start one after the other start at the same step", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  const auto rank = [&](int number) {
    return std::make_unique<AutoSavingLoader>(
        fixture.pipeline(), LoaderOptions{.worker_config = {.rank = number, .world_size = 2}},
        options);
  };
  SavingJob first(fixture, {.world_size = 2}, options);
  const auto before = first.take(3);
  const Labels after_3 = [&] {
    Labels labels;
    for (int i = 0; i < 3; ++i) {
      labels.push_back(label(*first.rank(0).next()));
    }
    return labels;
  }();
  // The job is killed when rank 0 has written its file of step 6 and rank 1 has not. Then rank 1
  // starts, and reaches step 6 before rank 0 starts.
  const auto second = rank(1);
  REQUIRE(second->saver().step() == 3);
  for (int i = 0; i < 3; ++i) {
    second->next();
  }
  CHECK(std::filesystem::exists(options.folder + "/step_6/COMPLETE"));
  const auto late = rank(0);
  CHECK(late->saver().step() == 3);
  CHECK_FALSE(energon::read_mark(options.folder + "/step_6")->complete);
  for (const std::string& expected : after_3) {
    CAPTURE(expected);
    CHECK(label(*late->next()) == expected);
  }
  // A rank of the killed job that still runs cannot complete the checkpoint.
  for (int i = 0; i < 3; ++i) {
    first.rank(1).next();
  }
  CHECK_FALSE(energon::read_mark(options.folder + "/step_6")->complete);
  // From here on both ranks run.
  for (int i = 0; i < 3; ++i) {
    late->next();
    second->next();
  }
  CHECK(rank(0)->saver().step() == 9);
  CHECK(rank(1)->saver().step() == 9);
}

TEST_CASE("a rank that starts late, after others have saved, starts at the same place",
          "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  const auto rank = [&](int number) {
    return std::make_unique<AutoSavingLoader>(
        fixture.pipeline(), LoaderOptions{.worker_config = {.rank = number, .world_size = 2}},
        options);
  };
  for (const int number : {0, 1}) {
    CAPTURE(number);
    const auto loader = rank(number);
    CHECK(loader->saver().step() == 0);
    for (int i = 0; i < 7; ++i) {
      loader->next();
    }
  }
  CHECK(rank(1)->saver().step() == 6);
  CHECK(rank(0)->saver().step() == 6);
}

TEST_CASE("a rank detects that another start has set its checkpoint aside", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  SavingJob job(fixture, {.world_size = 2}, options);
  job.take(3);
  for (int i = 0; i < 3; ++i) {
    job.rank(0).next();
  }
  // The job starts again before rank 1 has written its file.
  CHECK(SavingJob(fixture, {.world_size = 2}, options).steps() == std::vector<std::int64_t>(2, 3));
  for (int i = 0; i < 3; ++i) {
    job.rank(1).next();
  }
  CHECK_FALSE(energon::read_mark(options.folder + "/step_6")->complete);
  const auto& uncounted = job.rank(1).saver().last_uncounted();
  REQUIRE(uncounted);
  CHECK(uncounted->step == 6);
  CHECK_THAT(uncounted->reason, Catch::Contains("the file of rank 1 of 2 is missing"));
  job.take(3);
  CHECK(energon::read_mark(options.folder + "/step_9")->complete);
  CHECK(uncounted->step == 6);
}

TEST_CASE("ranks that set a checkpoint aside at the same time recognize it", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  SavingJob(fixture, {.world_size = 2}, options).take(6);
  options.at_step = 3;
  const auto begin = [&](int rank) {
    return std::make_unique<AutoSavingLoader>(
        fixture.pipeline(), LoaderOptions{.worker_config = {.rank = rank, .world_size = 2}},
        options);
  };
  const std::string mark = energon::read_file(options.folder + "/step_6/COMPLETE");
  const auto first = begin(0);
  // As if rank 1 had read the mark before rank 0 replaced it.
  fixture.folder().write("saved/step_6/COMPLETE", mark);
  const auto second = begin(1);
  for (int i = 0; i < 3; ++i) {
    second->next();
  }
  const auto set_aside = energon::read_mark(options.folder + "/step_6");
  CHECK_FALSE(set_aside->complete);
  for (int i = 0; i < 3; ++i) {
    first->next();
  }
  CHECK(energon::read_mark(options.folder + "/step_6")->complete);
  // A mark that sets it aside once more has another id, so that running ranks can tell them apart.
  energon::CheckpointCandidates(options.folder).set_all_aside(set_aside->reason);
  CHECK(energon::read_mark(options.folder + "/step_6")->id != set_aside->id);
}

TEST_CASE("a file of an earlier start is known by inode, size and time", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  SavingJob(fixture, {.world_size = 2}, options).take(3);
  const std::string path = options.folder + "/step_3";
  const auto files = energon::checkpoint_files(path);
  energon::RankFiles stale = energon::rank_files(path);
  CHECK(energon::has_all_files(path, files, {}, 2));
  CHECK_FALSE(energon::has_all_files(path, files, {}, 3));
  CHECK_FALSE(energon::has_all_files(path, files, stale, 2));
  // Written again, with the same inode as the old file.
  for (auto& [name, version] : stale) {
    --version.mtime_ns;
  }
  CHECK(energon::has_all_files(path, files, stale, 2));
}

TEST_CASE("the reason of a mark keeps line ends, but no other control characters", "[autosave]") {
  const TempDir folder;
  energon::publish_mark(folder.path(), energon::void_mark("two:\n  a\x1b[2J\n  b\xff"));
  CHECK(energon::read_mark(folder.path())->reason == "two:\n  a\\x1b[2J\n  b\\xff");
}
