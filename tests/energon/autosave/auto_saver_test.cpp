// IBM-22: loaders that save automatically, the checkpoints that they keep, and how they continue
// from their folder.

#include "energon/autosave/auto_saver.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/autosave/checkpoint_folder.h"
#include "io/error.h"
#include "io/file.h"
#include "tests/energon/autosave/auto_saver_fixture.h"
#include "tests/energon/loader/loader_fixture.h"

using energon::AutoSaveOptions;
using energon::AutoSaver;
using energon::AutoSavingLoader;
using energon::Error;
using energon::LoaderOptions;
using energon::testing::kSavedOptions;
using energon::testing::label;
using energon::testing::LoaderFixture;
using energon::testing::names_in;
using energon::testing::SavingJob;

// It borrows its loader.
static_assert(!std::is_move_constructible_v<AutoSaver>);
static_assert(!std::is_copy_constructible_v<AutoSaver>);

TEST_CASE("IBM-22 loaders that saved every 100 steps continue from their folder",
          "[autosave][ibm][fork]") {
  const LoaderFixture fixture(kSavedOptions);
  const int workers = GENERATE(0, 2);
  const energon::WorkerConfig layout = {.world_size = 3, .num_workers = workers};
  const std::string folder = fixture.folder().file("saved");

  SavingJob first(fixture, layout, {.folder = folder, .every_batches = 100});
  CHECK_FALSE(first.saver().restored_from());
  first.take(100);
  CHECK(names_in(folder) == std::vector<std::string>{"JOB", "ranks", "step_100"});
  const auto files = names_in(folder + "/step_100");
  REQUIRE(files.size() == 5);
  CHECK_THAT(files[1], Catch::StartsWith("position_"));
  CHECK(std::vector{files[0], files[2], files[3], files[4]} ==
        std::vector<std::string>{"COMPLETE", "rank_0.state", "rank_1.state", "rank_2.state"});

  // The run's own newest checkpoint is preferred to `load_from`, which need not exist.
  SavingJob second(fixture, layout,
                   {.folder = folder, .every_batches = 1000, .load_from = "/no/such/folder"});
  CHECK(second.steps() == std::vector<std::int64_t>(3, 100));
  CHECK(second.saver().restored_from() == folder + "/step_100");
  CHECK(second.saver().ignored().empty());

  // In another folder, the run is new and counts steps from 0.
  const std::string other = fixture.folder().file("other");
  SavingJob third(fixture, layout, {.folder = other, .every_batches = 150, .load_from = folder});
  CHECK(third.steps() == std::vector<std::int64_t>(3, 0));
  CHECK(third.saver().restored_from() == folder + "/step_100");

  const auto expected = first.take(300);
  CHECK(second.take(300) == expected);
  CHECK(second.steps() == std::vector<std::int64_t>(3, 400));
  CHECK(third.take(300) == expected);
  CHECK(names_in(other) == std::vector<std::string>{"JOB", "ranks", "step_150", "step_300"});
  CHECK(names_in(folder) ==
        std::vector<std::string>{"JOB", "ranks", "step_100", "step_200", "step_300", "step_400"});
}

TEST_CASE("a start and a save open only the rank's own file and the mark, for any number of ranks",
          "[autosave]") {
  const LoaderFixture fixture({.batch_size = 1});
  const std::string folder = fixture.folder().file("saved");
  const energon::WorkerConfig layout = {.world_size = 24};
  SavingJob job(fixture, layout, {.folder = folder, .every_batches = 2, .keep = 2});
  job.take(4);
  const energon::UniqueFd watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  const auto opened = [&] {
    std::map<std::string, int> names;
    alignas(inotify_event) std::array<char, 1 << 16> buffer{};
    for (ssize_t size; (size = ::read(watch.get(), buffer.data(), buffer.size())) > 0;) {
      for (ssize_t at = 0; at < size;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        if (event->len > 0 && (event->mask & IN_ISDIR) == 0) {
          ++names[event->name];
        }
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    }
    return names;
  };
  for (const char* step : {"/step_2", "/step_4"}) {
    CAPTURE(step);
    REQUIRE(::inotify_add_watch(watch.get(), (folder + step).c_str(), IN_OPEN) >= 0);
  }
  AutoSavingLoader resumed(fixture.pipeline(),
                           LoaderOptions{.worker_config = {.rank = 7, .world_size = 24}},
                           {.folder = folder, .every_batches = 2, .keep = 2});
  CHECK(resumed.saver().step() == 4);
  const auto at_start = opened();
  REQUIRE(at_start.size() == 2);
  CHECK(at_start.at("rank_7.state") == 1);
  CHECK(at_start.at("COMPLETE") == 1);

  // The last rank completes step 6 and removes step 2 without opening the files of other ranks.
  std::filesystem::create_directory(folder + "/step_6");
  REQUIRE(::inotify_add_watch(watch.get(), (folder + "/step_6").c_str(), IN_OPEN) >= 0);
  job.take(2);
  CHECK_FALSE(std::filesystem::exists(folder + "/step_2"));
  std::map<std::string, int> others;
  for (const auto& [name, count] : opened()) {
    if (name.find(".tmp.") == std::string::npos && name != "COMPLETE") {
      others[name] = count;
    }
  }
  CHECK(others.empty());
  CHECK(energon::read_mark(folder + "/step_6")->complete);
}

TEST_CASE("the newest complete checkpoints and foreign files are kept", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const AutoSaveOptions options = {
      .folder = fixture.folder().file("saved"), .every_batches = 1, .keep = 2};
  SavingJob job(fixture, {.world_size = 2}, options);
  job.take(1);
  for (const char* name : {"rank_0.state.tmp.0123456789abcdef", "COMPLETE.tmp.0123456789abcdef"}) {
    fixture.folder().write(std::string("saved/step_1/") + name, "killed while writing");
  }
  const std::vector<std::string> theirs = {
      "model.bin",         "rank_0.state.bak",
      "rank_0.state.tmp.", "rank_0.state.tmp.0123456789abcdef.bak",
      "rank_notes.state",  "rank_notes.state.bak",
      "rank_.state",       "COMPLETE.txt"};
  for (const std::string& name : theirs) {
    fixture.folder().write("saved/step_1/" + name, "theirs");
  }
  fixture.folder().write("saved/notes.txt", "theirs");
  fixture.folder().write("saved/step_one/rank_0.state", "theirs");
  for (int step = 2; step <= 5; ++step) {
    job.take(1);
  }
  CHECK(names_in(options.folder) == std::vector<std::string>{"JOB", "notes.txt", "ranks", "step_1",
                                                             "step_4", "step_5", "step_one"});
  CHECK_THAT(names_in(options.folder + "/step_1"), Catch::UnorderedEquals(theirs));
  CHECK(SavingJob(fixture, {.world_size = 2}, options).saver().step() == 5);

  // As long as rank 1 is late, no newer checkpoint is complete, and none is removed.
  for (int i = 0; i < 3; ++i) {
    job.rank(0).next();
  }
  CHECK(energon::find_newest_checkpoint(options.folder).newest->step == 5);
  for (int i = 0; i < 3; ++i) {
    job.rank(1).next();
  }
  CHECK(names_in(options.folder) == std::vector<std::string>{"JOB", "notes.txt", "ranks", "step_1",
                                                             "step_7", "step_8", "step_one"});
  // A checkpoint that was set aside does not count as one of the two.
  energon::replace_mark(options.folder + "/step_8", energon::void_mark("a test"));
  job.take(1);
  CHECK(energon::find_newest_checkpoint(options.folder).newest->step == 9);
  CHECK(std::filesystem::exists(options.folder + "/step_7/rank_0.state"));
}

TEST_CASE("if ranks drift apart, no usable checkpoint is removed", "[autosave]") {
  // 55 samples: an epoch has one more batch on rank 0 than on rank 1.
  const LoaderFixture fixture({.batch_size = 1, .repeat = false});
  const AutoSaveOptions options = {
      .folder = fixture.folder().file("saved"), .every_batches = 10, .keep = 1};
  SavingJob job(fixture, {.world_size = 2}, options);
  const auto step = [&] {
    for (const std::size_t rank : {0, 1}) {
      while (!job.rank(rank).next()) {
      }
    }
  };
  for (int taken = 0; taken < 50; ++taken) {
    step();
  }
  CHECK(energon::read_mark(options.folder + "/step_20")->complete);
  // The rank that completed it knows at once.
  CHECK_FALSE(job.rank(0).saver().last_uncounted());
  const auto& uncounted = job.rank(1).saver().last_uncounted();
  REQUIRE(uncounted);
  CHECK(uncounted->step == 50);
  CHECK(uncounted->path == options.folder + "/step_50");
  CHECK_THAT(uncounted->reason, Catch::Contains("different steps of epoch 1"));
  for (const char* name : {"/step_30", "/step_40", "/step_50"}) {
    CAPTURE(name);
    const auto mark = energon::read_mark(options.folder + name);
    REQUIRE(mark);
    CHECK_FALSE(mark->complete);
    CHECK_THAT(mark->reason, Catch::Contains(":\n  different steps of epoch 1"));
  }
  SavingJob resumed(fixture, {.world_size = 2}, options);
  CHECK(resumed.steps() == std::vector<std::int64_t>(2, 20));
  REQUIRE(resumed.saver().ignored().size() == 3);
  CHECK_THAT(resumed.saver().ignored().front(), Catch::Contains("different steps of epoch 1"));
}

TEST_CASE("a checkpoint of a smaller world is complete among files of a larger one", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 10};
  SavingJob(fixture, {.world_size = 3, .logical_shards = 6}, options).take(10);
  std::filesystem::remove(options.folder + "/step_10/rank_0.state");  // killed while saving
  std::filesystem::remove(options.folder + "/step_10/COMPLETE");
  AutoSaveOptions again = options;
  again.start_over = true;
  SavingJob two(fixture, {.world_size = 2, .logical_shards = 6}, again);
  REQUIRE(two.saver().step() == 0);
  for (int i = 0; i < 10; ++i) {
    two.rank(0).next();
  }
  // The files belong to rank 0 of two ranks and to ranks 1 and 2 of three.
  CHECK_FALSE(energon::find_newest_checkpoint(options.folder).newest);
  for (int i = 0; i < 10; ++i) {
    two.rank(1).next();
  }
  const auto search = energon::find_newest_checkpoint(options.folder);
  REQUIRE(search.newest);
  CHECK(search.newest->job.ranks.size() == 2);
}

TEST_CASE("a save that failed is tried again, and no batch is lost", "[autosave]") {
  const LoaderFixture fixture(kSavedOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 2};
  AutoSavingLoader reference(fixture.pipeline(), {},
                             {.folder = fixture.folder().file("reference")});
  AutoSavingLoader loader(fixture.pipeline(), {}, options);
  CHECK(label(*loader.next()) == label(*reference.next()));
  fixture.folder().write("saved/step_2", "a file where a folder should be");
  CHECK_THROWS_WITH(loader.next(), Catch::Contains("step_2"));
  CHECK_THROWS_AS(loader.next(), Error);
  std::filesystem::remove(options.folder + "/step_2");
  CHECK(label(*loader.next()) == label(*reference.next()));
  CHECK(loader.saver().step() == 2);
  CHECK(energon::find_newest_checkpoint(options.folder).newest->step == 2);
  CHECK(label(*loader.next()) == label(*reference.next()));
}

TEST_CASE("the end of an epoch is not a step", "[autosave]") {
  const LoaderFixture fixture({.batch_size = 4, .repeat = false});
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 14};
  AutoSavingLoader loader(fixture.pipeline(), {}, options);
  std::int64_t batches = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (loader.next()) {
      ++batches;
    }
  }
  CHECK(batches == 28);
  CHECK(loader.saver().step() == 28);
  AutoSavingLoader resumed(fixture.pipeline(), {}, options);
  CHECK_FALSE(resumed.next());  // end of the second epoch, which was not reported before the save
  CHECK(label(*resumed.next()) == label(*loader.next()));
}

TEST_CASE("the options of an AutoSaver are checked", "[autosave]") {
  CHECK_THROWS_WITH(energon::validate(AutoSaveOptions{}), Catch::Contains("folder"));
  CHECK_THROWS_WITH(energon::validate(AutoSaveOptions{.folder = "x", .every_batches = 0}),
                    Catch::Contains("every_batches is 0"));
  CHECK_THROWS_WITH(energon::validate(AutoSaveOptions{.folder = "x", .keep = 0}),
                    Catch::Contains("keep is 0"));
  CHECK_THROWS_WITH(energon::validate(AutoSaveOptions{.folder = "x", .at_step = -1}),
                    Catch::Contains("at_step is -1"));
  CHECK_THROWS_WITH(
      energon::validate(AutoSaveOptions{.folder = "x", .at_step = 3, .start_over = true}),
      Catch::Contains("set only one"));
}
