// IBM-22: loaders that save by themselves, and go on from their folder.

#include "energon/protocols/auto_saver.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/job_state.h"
#include "energon/protocols/checkpoint_folder.h"
#include "energon/protocols/checkpoint_start.h"
#include "energon/state/younger_members.h"
#include "io/error.h"
#include "io/file_source.h"
#include "io/unique_fd.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/error_of.h"

using energon::AutoSaveOptions;
using energon::AutoSaver;
using energon::AutoSavingLoader;
using energon::Error;
using energon::ErrorCode;
using energon::LoaderOptions;
using energon::SavableDataLoaderState;
using energon::testing::error_of;
using energon::testing::label;
using energon::testing::Labels;
using energon::testing::LoaderFixture;
using energon::testing::tail;
using energon::testing::TempDir;

// It borrows its loader.
static_assert(!std::is_move_constructible_v<AutoSaver>);
static_assert(!std::is_copy_constructible_v<AutoSaver>);

namespace {

const energon::TrainOptions kOptions = {.batch_size = 2, .shuffle_buffer_size = 12};

// The ranks of a job with their savers. They run one after the other, so that none can wait for
// another.
class Job {
 public:
  Job(const LoaderFixture& fixture, energon::WorkerConfig layout, const AutoSaveOptions& options) {
    for (layout.rank = 0; layout.rank < layout.world_size; ++layout.rank) {
      ranks_.push_back(std::make_unique<AutoSavingLoader>(
          fixture.pipeline(), LoaderOptions{.worker_config = layout}, options));
    }
  }

  AutoSavingLoader& rank(std::size_t number) { return *ranks_[number]; }
  const AutoSaver& saver() { return rank(0).saver(); }

  /// The next `count` batches of each rank, rank after rank.
  std::vector<Labels> take(int count) {
    std::vector<Labels> labels;
    for (const auto& rank : ranks_) {
      labels.emplace_back();
      for (int i = 0; i < count; ++i) {
        labels.back().push_back(label(*rank->next()));
      }
    }
    return labels;
  }

  std::vector<std::int64_t> steps() {
    std::vector<std::int64_t> steps;
    for (const auto& rank : ranks_) {
      steps.push_back(rank->saver().step());
    }
    return steps;
  }

 private:
  std::vector<std::unique_ptr<AutoSavingLoader>> ranks_;
};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("IBM-22 loaders that saved every 100 steps go on from their folder",
          "[protocols][ibm][fork]") {
  const LoaderFixture fixture(kOptions);
  const int workers = GENERATE(0, 2);
  const energon::WorkerConfig layout = {.world_size = 3, .num_workers = workers};
  const std::string folder = fixture.folder().file("saved");

  Job first(fixture, layout, {.folder = folder, .every_batches = 100});
  CHECK_FALSE(first.saver().restored_from());
  first.take(100);
  CHECK(names_in(folder) == std::vector<std::string>{"JOB", "ranks", "step_100"});
  const auto files = names_in(folder + "/step_100");
  REQUIRE(files.size() == 5);
  CHECK_THAT(files[1], Catch::StartsWith("position_"));
  CHECK(std::vector{files[0], files[2], files[3], files[4]} ==
        std::vector<std::string>{"COMPLETE", "rank_0.state", "rank_1.state", "rank_2.state"});

  // Its own newest checkpoint goes before another folder, which need not even be there.
  Job second(fixture, layout,
             {.folder = folder, .every_batches = 1000, .load_from = "/no/such/folder"});
  CHECK(second.steps() == std::vector<std::int64_t>(3, 100));
  CHECK(second.saver().restored_from() == folder + "/step_100");
  CHECK(second.saver().ignored().empty());

  // Elsewhere it is a beginning: steps are counted anew.
  const std::string other = fixture.folder().file("other");
  Job third(fixture, layout, {.folder = other, .every_batches = 150, .load_from = folder});
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

TEST_CASE("IBM-22 what is half written is passed over and named", "[protocols][ibm]") {
  const LoaderFixture fixture(kOptions);
  const energon::WorkerConfig layout = {.world_size = 3};
  const std::string folder = fixture.folder().file("saved");
  const AutoSaveOptions options = {.folder = folder, .every_batches = 10};
  Job whole(fixture, layout, options);
  whole.take(10);
  const auto expected = whole.take(10);
  const std::string last = folder + "/step_20/rank_2.state";
  const std::string content = energon::read_file(last);
  // As if the last rank had been killed before it could say that the checkpoint is complete.
  std::filesystem::remove(folder + "/step_20/COMPLETE");
  std::string reason;
  SECTION("a rank is missing") {
    std::filesystem::remove(last);
    reason = "rank_2.state";
  }
  SECTION("nothing but the folder is there") {
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
  SECTION("the ranks stand at different steps") {
    std::filesystem::copy_file(folder + "/step_10/rank_2.state", last,
                               std::filesystem::copy_options::overwrite_existing);
    reason = "different steps of epoch 0: 10 at ranks 2, 20 at ranks 0, 1";
  }
  SECTION("a file is of another job") {
    Job other(fixture, {.world_size = 3, .seed_offset = 5},
              {.folder = fixture.folder().file("other"), .every_batches = 20});
    other.take(20);
    std::filesystem::copy_file(fixture.folder().file("other/step_20/rank_2.state"), last,
                               std::filesystem::copy_options::overwrite_existing);
    reason = "seed_offset";
  }
  Job resumed(fixture, layout, options);
  CHECK(resumed.steps() == std::vector<std::int64_t>(3, 10));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    REQUIRE(resumed.rank(rank).saver().ignored().size() == 1);
    CHECK_THAT(resumed.rank(rank).saver().ignored().front(),
               Catch::StartsWith(folder + "/step_20: ") && Catch::Contains(reason));
  }
  CHECK(resumed.take(10) == expected);  // and is complete again
  CHECK(Job(fixture, layout, options).steps() == std::vector<std::int64_t>(3, 20));
}

TEST_CASE("what cannot be a checkpoint is passed over and named, and stays", "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const AutoSaveOptions options = {
      .folder = fixture.folder().file("saved"), .every_batches = 10, .keep = 1};
  Job(fixture, {.world_size = 2}, options).take(10);
  fixture.folder().write("saved/step_1", "a file");
  fixture.folder().write("saved/step_2/rank_0.state/notes", "in a folder");
  fixture.folder().write("saved/step_100", "a file");
  fixture.folder().write("saved/step_101/rank_0.state/notes", "in a folder");
  Job resumed(fixture, {.world_size = 2}, options);
  CHECK(resumed.steps() == std::vector<std::int64_t>(2, 10));
  REQUIRE(resumed.saver().ignored().size() == 2);
  CHECK_THAT(resumed.saver().ignored()[0],
             Catch::StartsWith(options.folder + "/step_101: ") &&
                 Catch::Contains("this is a folder, the state of a rank is a file"));
  CHECK_THAT(resumed.saver().ignored()[1],
             Catch::StartsWith(options.folder + "/step_100: ") &&
                 Catch::Contains("this is a file, a checkpoint is a folder"));
  resumed.take(10);
  CHECK_THAT(names_in(options.folder),
             Catch::UnorderedEquals(std::vector<std::string>{"JOB", "ranks", "step_1", "step_2",
                                                             "step_20", "step_100", "step_101"}));
}

TEST_CASE("checkpoints of which none can be used are an error, unless the run starts over",
          "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const energon::WorkerConfig layout = {.world_size = 2};
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 5};
  Job whole(fixture, layout, options);
  const auto expected = whole.take(5);
  const std::string last = options.folder + "/step_5/rank_1.state";
  const std::string content = energon::read_file(last);
  std::filesystem::remove(last);
  std::filesystem::remove(options.folder + "/step_5/COMPLETE");
  for (const std::string load_from : {"", "/no/such/folder"}) {
    options.load_from = load_from;
    CHECK_THAT(error_of([&] { Job(fixture, layout, options); }, ErrorCode::kNotFound),
               Catch::Contains("start_over") && Catch::Contains("--start-over") &&
                   Catch::Contains("step_5: the file of rank 1 of 2 is missing"));
  }
  options.load_from = "";
  // Nothing was written over.
  CHECK(std::filesystem::exists(options.folder + "/step_5/COMPLETE"));
  CHECK(std::filesystem::exists(options.folder + "/step_5/rank_0.state"));
  options.start_over = true;
  Job fresh(fixture, layout, options);
  CHECK_FALSE(fresh.saver().restored_from());
  CHECK(fresh.steps() == std::vector<std::int64_t>(2, 0));
  CHECK(fresh.take(5) == expected);
  options.start_over = false;
  CHECK(Job(fixture, layout, options).steps() == std::vector<std::int64_t>(2, 5));
}

TEST_CASE("a run that starts over writes over complete checkpoints, of other settings too",
          "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const LoaderFixture other(kOptions, {10, 10, 10});
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 5};
  Job(fixture, {.world_size = 2}, options).take(10);
  options.start_over = true;
  Job fresh(other, {.world_size = 2}, options);
  options.start_over = false;
  // Set aside at once: a restart does not go back to the data that was left.
  CHECK_THAT(error_of([&] { Job(fixture, {.world_size = 2}, options); }, ErrorCode::kNotFound),
             Catch::Contains("step_10: the run began anew"));
  const auto taken = fresh.take(5);
  Job resumed(other, {.world_size = 2}, options);
  CHECK(resumed.steps() == std::vector<std::int64_t>(2, 5));
  CHECK(resumed.take(5) == fresh.take(5));
}

TEST_CASE("a run begins at the step that is asked for, and later checkpoints do not count",
          "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const energon::WorkerConfig layout = {.world_size = 2};
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  Job whole(fixture, layout, options);
  whole.take(3);
  const auto expected = whole.take(3);
  whole.take(3);
  options.at_step = 4;
  CHECK_THAT(error_of([&] { Job(fixture, layout, options); }, ErrorCode::kNotFound),
             Catch::Contains("checkpoints of these steps are complete: 9, 6, 3"));
  options.at_step = 3;
  Job back(fixture, layout, options);
  CHECK(back.steps() == std::vector<std::int64_t>(2, 3));
  CHECK(back.saver().restored_from() == options.folder + "/step_3");
  options.at_step.reset();
  // Before the run has got anywhere, and after.
  CHECK(Job(fixture, layout, options).steps() == std::vector<std::int64_t>(2, 3));
  CHECK(back.take(3) == expected);
  CHECK(Job(fixture, layout, options).steps() == std::vector<std::int64_t>(2, 6));
  options.at_step = 0;
  CHECK(Job(fixture, layout, options).steps() == std::vector<std::int64_t>(2, 0));
}

TEST_CASE("ranks that start one after the other begin at the same step", "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  const auto rank = [&](int number) {
    return std::make_unique<AutoSavingLoader>(
        fixture.pipeline(), LoaderOptions{.worker_config = {.rank = number, .world_size = 2}},
        options);
  };
  Job first(fixture, {.world_size = 2}, options);
  const auto before = first.take(3);
  const Labels after_3 = [&] {
    Labels labels;
    for (int i = 0; i < 3; ++i) {
      labels.push_back(label(*first.rank(0).next()));
    }
    return labels;
  }();
  // Rank 0 has written its file of step 6, rank 1 has not: then the job is killed. Now rank 1
  // starts, and is at step 6 before rank 0 has even looked.
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
    CHECK(label(*late->next()) == expected);
  }
  // A rank of the killed job that still runs completes nothing.
  for (int i = 0; i < 3; ++i) {
    first.rank(1).next();
  }
  CHECK_FALSE(energon::read_mark(options.folder + "/step_6")->complete);
  // From here on both are there.
  for (int i = 0; i < 3; ++i) {
    late->next();
    second->next();
  }
  CHECK(rank(0)->saver().step() == 9);
  CHECK(rank(1)->saver().step() == 9);
}

TEST_CASE("a rank that begins late, after others have saved, begins at the start as they did",
          "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  const auto rank = [&](int number) {
    return std::make_unique<AutoSavingLoader>(
        fixture.pipeline(), LoaderOptions{.worker_config = {.rank = number, .world_size = 2}},
        options);
  };
  for (const int number : {0, 1}) {
    const auto loader = rank(number);
    CHECK(loader->saver().step() == 0);
    for (int i = 0; i < 7; ++i) {
      loader->next();
    }
  }
  CHECK(rank(1)->saver().step() == 6);
  CHECK(rank(0)->saver().step() == 6);
}

TEST_CASE(
    "a rank whose file of a complete checkpoint is damaged does not begin elsewhere by itself",
    "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const energon::WorkerConfig layout = {.world_size = 2};
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  Job(fixture, layout, options).take(6);
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
    reason = "its file is of step 3 of epoch 0, the checkpoint of step 6";
  }
  SECTION("of another job") {
    Job(fixture, {.world_size = 2, .seed_offset = 5},
        {.folder = fixture.folder().file("other"), .every_batches = 6})
        .take(6);
    std::filesystem::copy_file(fixture.folder().file("other/step_6/rank_1.state"), file,
                               std::filesystem::copy_options::overwrite_existing);
    reason = "its file is of another job";
  }
  SECTION("of another rank") {
    std::filesystem::copy_file(options.folder + "/step_6/rank_0.state", file,
                               std::filesystem::copy_options::overwrite_existing);
    reason = "its file is of rank 0";
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

TEST_CASE("files of ranks of different versions are of one job where what both have agrees",
          "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  Job(fixture, {.world_size = 2}, options).take(3);
  const std::string file = options.folder + "/step_3/rank_1.state";
  const std::string mark_file = options.folder + "/step_3/COMPLETE";
  const auto begin = [&] {
    AutoSavingLoader loader(fixture.pipeline(),
                            LoaderOptions{.worker_config = {.rank = 1, .world_size = 2}}, options);
    return loader.saver().step();
  };
  SavableDataLoaderState state = energon::read_loader_state(file);
  REQUIRE(state.config->contains("draws"));
  REQUIRE(energon::values_of_member(state.config, "indexes").size() == 1);
  SECTION("a file of an earlier version") {
    state.config = energon::without_younger_members(state.config);
    energon::write_loader_state(file, state);
    CHECK(begin() == 3);
  }
  SECTION("a mark of an earlier version") {
    auto mark = nlohmann::ordered_json::parse(energon::read_file(mark_file));
    mark["digest"] = mark["core"];
    mark.erase("core");
    mark.erase("younger");
    fixture.folder().write("saved/step_3/COMPLETE", mark.dump());
    CHECK(begin() == 3);
  }
  SECTION("what only the file has") {
    auto mark = nlohmann::ordered_json::parse(energon::read_file(mark_file));
    mark["digest"] = "0123456789abcdef";
    mark["younger"].erase("indexes");
    fixture.folder().write("saved/step_3/COMPLETE", mark.dump());
    CHECK(begin() == 3);
  }
  SECTION("what both have is different") {
    auto mark = nlohmann::ordered_json::parse(energon::read_file(mark_file));
    mark["digest"] = "0123456789abcdef";
    mark["younger"]["indexes"] = "0123456789abcdef";
    fixture.folder().write("saved/step_3/COMPLETE", mark.dump());
    CHECK_THAT(error_of(begin, ErrorCode::kCorruptData), Catch::Contains("of another job"));
  }
}

TEST_CASE("a start and a save open the rank's own file and the mark, whatever the number of ranks",
          "[protocols]") {
  const LoaderFixture fixture({.batch_size = 1});
  const std::string folder = fixture.folder().file("saved");
  const energon::WorkerConfig layout = {.world_size = 24};
  Job job(fixture, layout, {.folder = folder, .every_batches = 2, .keep = 2});
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

  // The last rank says that step 6 is complete, and removes step 2: no other rank's file is opened.
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

TEST_CASE("ranks with other data or settings are found out before the first checkpoint",
          "[protocols][fork]") {
  const LoaderFixture fixture(kOptions);
  const LoaderFixture other(kOptions, {2, 2, 3, 4, 10, 10, 10, 10, 3});
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  const auto rank = [&](const LoaderFixture& data, energon::WorkerConfig layout) {
    return std::make_unique<AutoSavingLoader>(data.pipeline(),
                                              LoaderOptions{.worker_config = layout}, options);
  };
  const auto first = rank(fixture, {.rank = 0, .world_size = 2});
  CHECK_THAT(error_of([&] { rank(other, {.rank = 1, .world_size = 2}); }, ErrorCode::kMismatch),
             Catch::Contains("a rank that began in this folder") && Catch::Contains("3 samples") &&
                 Catch::Contains("--start-over"));
  CHECK_THAT(error_of([&] { rank(fixture, {.rank = 1, .world_size = 2, .num_workers = 3}); },
                      ErrorCode::kMismatch),
             Catch::Contains("num_workers"));
  // Ranks that start over write their file over that of an earlier start; so they look once more.
  options.start_over = true;
  const auto second = rank(other, {.rank = 1, .world_size = 2});
  first->next();
  first->next();
  CHECK_THAT(error_of([&] { first->next(); }, ErrorCode::kMismatch),
             Catch::Contains("a rank that began in this folder"));
  CHECK_FALSE(std::filesystem::exists(options.folder + "/step_3/rank_0.state"));
}

TEST_CASE("steps that no run takes are refused, not counted on from", "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  Job(fixture, {}, options).take(3);
  for (const char* name :
       {"step_9223372036854775807", "step_4398046511105", "step_99999999999999999999999"}) {
    const std::string path = options.folder + "/" + name;
    std::filesystem::copy(options.folder + "/step_3", path,
                          std::filesystem::copy_options::recursive);
    CHECK_THAT(error_of([&] { Job(fixture, {}, options); }, ErrorCode::kCorruptData),
               Catch::Contains(name));
    std::filesystem::remove_all(path);
  }
  std::filesystem::rename(options.folder + "/step_3", options.folder + "/step_4398046511104");
  Job last(fixture, {}, options);
  CHECK_THAT(error_of([&] { last.rank(0).next(); }, ErrorCode::kResourceExhausted),
             Catch::Contains("4398046511104 steps"));
}

TEST_CASE("a folder without marks, as earlier versions wrote it, is continued from",
          "[protocols]") {
  const LoaderFixture fixture(kOptions);
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  Job whole(fixture, {.world_size = 2}, options);
  whole.take(6);
  for (const char* name : {"/JOB", "/ranks", "/step_3/COMPLETE", "/step_6/COMPLETE"}) {
    REQUIRE(std::filesystem::remove_all(options.folder + name) > 0);
  }
  options.keep = 2;
  Job resumed(fixture, {.world_size = 2}, options);
  CHECK(resumed.steps() == std::vector<std::int64_t>(2, 6));
  CHECK(energon::read_mark(options.folder + "/step_6")->complete);
  resumed.take(3);
  CHECK(names_in(options.folder) == std::vector<std::string>{"ranks", "step_6", "step_9"});
}

TEST_CASE("with a Comm rank 0 chooses, and all go back where one rank's file is damaged",
          "[protocols][fork]") {
  const LoaderFixture fixture(kOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  Job(fixture, {.world_size = 3}, options).take(9);
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
    CHECK_THAT(text, Catch::StartsWith("error not_found") && Catch::Contains("--start-over"));
  }
  back = options;
  back.start_over = true;
  CHECK(begin(back) == Texts(3, "0"));
}

TEST_CASE("with a Comm ranks that differ are refused everywhere at once", "[protocols][fork]") {
  const LoaderFixture fixture(kOptions);
  const LoaderFixture other(kOptions, {2, 2, 3, 4, 10, 10, 10, 10, 3});
  const auto reports = energon::testing::run_group(3, [&](energon::Comm& comm) {
    const LoaderFixture& data = comm.rank() == 2 ? other : fixture;
    AutoSavingLoader loader(data.pipeline(),
                            LoaderOptions{.worker_config = {.rank = comm.rank(), .world_size = 3}},
                            {.folder = fixture.folder().file("saved"), .comm = &comm});
    return std::string("began");
  });
  for (const auto& report : reports) {
    CHECK_THAT(report.text, Catch::StartsWith("error mismatch") && Catch::Contains("rank 2: ") &&
                                Catch::Contains("3 samples"));
    CHECK(report.took < std::chrono::seconds(10));
  }
}

TEST_CASE("a loader loads from a folder, a checkpoint, or a file of a rank or a job",
          "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const energon::WorkerConfig layout = {.world_size = 2};
  const std::string folder = fixture.folder().file("saved");
  Job first(fixture, layout, {.folder = folder, .every_batches = 10});
  first.take(10);
  const auto middle = first.take(10);
  const auto end = first.take(5);
  const std::string job_file = fixture.folder().file("job.state");
  write_job_state(job_file, energon::read_checkpoint(folder + "/step_10"));

  const auto loaded = [&](const std::string& load_from) {
    static int number = 0;
    Job job(
        fixture, layout,
        {.folder = fixture.folder().file(fmt::format("run{}", number++)), .load_from = load_from});
    CHECK(job.saver().step() == 0);
    return job.take(5);
  };
  CHECK(loaded(folder) == end);
  const std::vector<Labels> from_10 = {tail(middle[0], 0, 5), tail(middle[1], 0, 5)};
  CHECK(loaded(folder + "/step_10") == from_10);
  CHECK(loaded(job_file) == from_10);
  // The file of one rank is for that rank.
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

TEST_CASE("another layout goes on from the folder, rescaled", "[protocols][fork]") {
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
  Job undisturbed(fixture, wide, {.folder = fixture.folder().file("undisturbed")});
  undisturbed.take(30);
  const Labels expected = in_order(undisturbed.take(30));

  const AutoSaveOptions options = {.folder = folder, .every_batches = 10};
  Job(fixture, wide, options).take(30);
  Job three(fixture, {.world_size = 3, .num_workers = 2, .logical_shards = 12}, options);
  CHECK(three.steps() == std::vector<std::int64_t>(3, 30));
  const Labels after = in_order(three.take(20));
  CHECK(after == Labels(expected.begin(), expected.begin() + 60));
  // The files of the fourth rank in step_30 are of the larger world, those of step_50 of three.
  Job six(fixture, {.world_size = 6, .logical_shards = 12}, options);
  CHECK(six.saver().restored_from() == folder + "/step_50");
  CHECK(in_order(six.take(10)) == Labels(expected.begin() + 60, expected.begin() + 120));
}

TEST_CASE("a checkpoint of a smaller world is complete among files of a larger one",
          "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 10};
  Job(fixture, {.world_size = 3, .logical_shards = 6}, options).take(10);
  std::filesystem::remove(options.folder + "/step_10/rank_0.state");  // killed while saving
  std::filesystem::remove(options.folder + "/step_10/COMPLETE");
  AutoSaveOptions anew = options;
  anew.start_over = true;
  Job two(fixture, {.world_size = 2, .logical_shards = 6}, anew);
  REQUIRE(two.saver().step() == 0);
  for (int i = 0; i < 10; ++i) {
    two.rank(0).next();
  }
  // Of rank 0 of two, and ranks 1 and 2 of three.
  CHECK_FALSE(energon::find_newest_checkpoint(options.folder).newest);
  for (int i = 0; i < 10; ++i) {
    two.rank(1).next();
  }
  const auto search = energon::find_newest_checkpoint(options.folder);
  REQUIRE(search.newest);
  CHECK(search.newest->job.ranks.size() == 2);
}

TEST_CASE("the newest complete checkpoints are kept, and what others put there", "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const AutoSaveOptions options = {
      .folder = fixture.folder().file("saved"), .every_batches = 1, .keep = 2};
  Job job(fixture, {.world_size = 2}, options);
  job.take(1);
  for (const char* name : {"rank_0.state.tmp.7.0", "rank_0.state.tmp.0123456789abcdef",
                           "COMPLETE.tmp.0123456789abcdef"}) {
    fixture.folder().write(std::string("saved/step_1/") + name, "killed while writing");
  }
  const std::vector<std::string> theirs = {
      "model.bin",        "rank_0.state.bak",     "rank_0.state.tmp.", "rank_0.state.tmp.7.0.bak",
      "rank_notes.state", "rank_notes.state.bak", "rank_.state",       "COMPLETE.txt"};
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
  CHECK(Job(fixture, {.world_size = 2}, options).saver().step() == 5);

  // As long as rank 1 is late, nothing newer is complete, and nothing is removed.
  for (int i = 0; i < 3; ++i) {
    job.rank(0).next();
  }
  CHECK(energon::find_newest_checkpoint(options.folder).newest->step == 5);
  for (int i = 0; i < 3; ++i) {
    job.rank(1).next();
  }
  CHECK(names_in(options.folder) == std::vector<std::string>{"JOB", "notes.txt", "ranks", "step_1",
                                                             "step_7", "step_8", "step_one"});
  // One that was set aside is none of the two.
  energon::replace_mark(options.folder + "/step_8", energon::void_mark("a test"));
  job.take(1);
  CHECK(energon::find_newest_checkpoint(options.folder).newest->step == 9);
  CHECK(std::filesystem::exists(options.folder + "/step_7/rank_0.state"));
}

TEST_CASE("where ranks drift apart, nothing that can be continued from is removed", "[protocols]") {
  // 55 samples: an epoch of rank 0 has a batch more than one of rank 1.
  const LoaderFixture fixture({.batch_size = 1, .repeat = false});
  const AutoSaveOptions options = {
      .folder = fixture.folder().file("saved"), .every_batches = 10, .keep = 1};
  Job job(fixture, {.world_size = 2}, options);
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
  // Who completed it knows at once.
  CHECK_FALSE(job.rank(0).saver().last_uncounted());
  const auto& uncounted = job.rank(1).saver().last_uncounted();
  REQUIRE(uncounted);
  CHECK(uncounted->step == 50);
  CHECK(uncounted->path == options.folder + "/step_50");
  CHECK_THAT(uncounted->reason, Catch::Contains("different steps of epoch 1"));
  for (const char* name : {"/step_30", "/step_40", "/step_50"}) {
    const auto mark = energon::read_mark(options.folder + name);
    REQUIRE(mark);
    CHECK_FALSE(mark->complete);
    CHECK_THAT(mark->reason, Catch::Contains(":\n  different steps of epoch 1"));
  }
  Job resumed(fixture, {.world_size = 2}, options);
  CHECK(resumed.steps() == std::vector<std::int64_t>(2, 20));
  REQUIRE(resumed.saver().ignored().size() == 3);
  CHECK_THAT(resumed.saver().ignored().front(), Catch::Contains("different steps of epoch 1"));
}

TEST_CASE("a rank knows that another start has set its checkpoint aside", "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  Job job(fixture, {.world_size = 2}, options);
  job.take(3);
  for (int i = 0; i < 3; ++i) {
    job.rank(0).next();
  }
  // A start while rank 1 is still to write its file.
  CHECK(Job(fixture, {.world_size = 2}, options).steps() == std::vector<std::int64_t>(2, 3));
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

TEST_CASE("the reason of a mark keeps its lines, and no other control characters", "[protocols]") {
  const TempDir folder;
  energon::publish_mark(folder.path(), energon::void_mark("two:\n  a\x1b[2J\n  b\xff"));
  CHECK(energon::read_mark(folder.path())->reason == "two:\n  a\\x1b[2J\n  b\\xff");
}

TEST_CASE("ranks that set a checkpoint aside at the same time know it again", "[protocols]") {
  const LoaderFixture fixture(kOptions);
  AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  Job(fixture, {.world_size = 2}, options).take(6);
  options.at_step = 3;
  const auto begin = [&](int rank) {
    return std::make_unique<AutoSavingLoader>(
        fixture.pipeline(), LoaderOptions{.worker_config = {.rank = rank, .world_size = 2}},
        options);
  };
  const std::string mark = energon::read_file(options.folder + "/step_6/COMPLETE");
  const auto first = begin(0);
  // Rank 1 has looked before rank 0 replaced the mark.
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
  // Set aside once more, it is another one: a rank that still runs does not take it for the first.
  energon::CheckpointCandidates(options.folder).set_all_aside(set_aside->reason);
  CHECK(energon::read_mark(options.folder + "/step_6")->id != set_aside->id);
}

TEST_CASE("a file of an earlier start is known by inode, size and time", "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 3};
  Job(fixture, {.world_size = 2}, options).take(3);
  const std::string path = options.folder + "/step_3";
  const auto files = energon::checkpoint_files(path);
  energon::RankFiles stale = energon::rank_files(path);
  CHECK(energon::has_all_files(path, files, {}, 2));
  CHECK_FALSE(energon::has_all_files(path, files, {}, 3));
  CHECK_FALSE(energon::has_all_files(path, files, stale, 2));
  // Written anew, with the number that the old file had.
  for (auto& [name, version] : stale) {
    --version.mtime_ns;
  }
  CHECK(energon::has_all_files(path, files, stale, 2));
}

TEST_CASE("a save that failed is tried again, and no batch is lost", "[protocols]") {
  const LoaderFixture fixture(kOptions);
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

TEST_CASE("the end of an epoch is no step", "[protocols]") {
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
  CHECK_FALSE(resumed.next());  // of the second epoch, which was not reported before the save
  CHECK(label(*resumed.next()) == label(*loader.next()));
}

TEST_CASE("checkpoints of other data are refused, not passed over", "[protocols]") {
  const LoaderFixture fixture(kOptions);
  const LoaderFixture other(kOptions, {10, 10});
  const AutoSaveOptions options = {.folder = fixture.folder().file("saved"), .every_batches = 1};
  Job(fixture, {}, options).take(1);
  CHECK_THROWS_WITH(Job(other, {}, options),
                    Catch::Contains("shards") && Catch::Contains("step_1"));
}

TEST_CASE("options of saving are checked", "[protocols]") {
  CHECK_THROWS_WITH(energon::validate(AutoSaveOptions{}), Catch::Contains("folder"));
  CHECK_THROWS_WITH(energon::validate(AutoSaveOptions{.folder = "x", .every_batches = 0}),
                    Catch::Contains("every_batches is 0"));
  CHECK_THROWS_WITH(energon::validate(AutoSaveOptions{.folder = "x", .keep = 0}),
                    Catch::Contains("keep is 0"));
  CHECK_THROWS_WITH(energon::validate(AutoSaveOptions{.folder = "x", .at_step = -1}),
                    Catch::Contains("at_step is -1"));
  CHECK_THROWS_WITH(
      energon::validate(AutoSaveOptions{.folder = "x", .at_step = 3, .start_over = true}),
      Catch::Contains("give one"));
}
