// Several processes at once on one folder, as several machines and containers see it: locks that
// are granted to everyone or do not exist, equal process ids, random timing.

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/dataset/dataset_folder.h"
#include "io/file.h"
#include "io/index/sample_index.h"
#include "io/lint/lint.h"
#include "io/shared_folder.h"
#include "tests/io/actors.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::testing::ChildResult;
using energon::testing::files_below;
using energon::testing::gzip;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::run_actors;
using energon::testing::TempDir;
using energon::testing::Words;

namespace {

constexpr int kRounds = 4;
constexpr int kRefused = 3;

// "" means the locks of the kernel.
const std::vector<std::string> kLocks = {"", "granted", "enosys"};

Words environment(const std::string& locks) {
  Words variables = {"ENERGON_TEST_PID=7", "ENERGON_TEST_JITTER=2000"};
  if (!locks.empty()) {
    variables.push_back("ENERGON_TEST_LOCKS=" + locks);
  }
  return variables;
}

std::vector<Words> times(int count, const Words& actor) {
  return std::vector<Words>(static_cast<std::size_t>(count), actor);
}

void check_all_right(const std::vector<ChildResult>& results) {
  for (const ChildResult& result : results) {
    CHECK(result.exit_code == 0);
  }
}

std::int64_t rows_of(const std::string& folder) {
  std::int64_t rows = 0;
  energon::SampleIndex(folder + "/.nv-meta/index.sqlite").for_each_sample([&](auto&&...) {
    ++rows;
    return true;
  });
  return rows;
}

}  // namespace

TEST_CASE("several processes expand a shard at once", "[io][formats][shared][fork]") {
  const TempDir folder;
  const std::string expected = folder.write("a.tar", make_shard(0, 300));
  const std::string shard = folder.write("a.tgz", gzip(make_shard(0, 300)));
  for (const std::string& locks : kLocks) {
    CAPTURE(locks);
    for (int round = 0; round < kRounds; ++round) {
      const std::string cache = folder.file(fmt::format("cache-{}-{}", locks, round));
      check_all_right(run_actors(times(4, {"expand", shard, cache, expected}), environment(locks)));
      CHECK(files_below(cache).size() == 1);
    }
  }
}

TEST_CASE("several processes index plain tars and JSONL files at once",
          "[io][formats][shared][fork]") {
  const TempDir folder;
  const std::string tar = folder.write("a.tar", make_shard(0, 300));
  std::string lines;
  for (int i = 0; i < 3000; ++i) {
    lines += fmt::format("{{\"n\": {}}}\n", i);
  }
  const std::string jsonl = folder.write("a.jsonl", lines);
  const std::string cache = folder.file("cache");
  for (const std::string& locks : kLocks) {
    CAPTURE(locks);
    for (int round = 0; round < kRounds; ++round) {
      std::filesystem::remove(tar + ".idx");
      std::filesystem::remove(jsonl + ".idx");
      // Left there by a container with our process id.
      folder.write("a.tar.idx.tmp.0123456789abcdef", "left behind");
      folder.write("a.jsonl.idx.tmp.0123456789abcdef", "left behind");
      check_all_right(run_actors({{"index", tar, cache, "300"},
                                  {"jsonl", jsonl, cache, "3000"},
                                  {"index", tar, cache, "300"},
                                  {"jsonl", jsonl, cache, "3000"}},
                                 environment(locks)));
      // A process that sees another's index before its time is set uses the cache.
      auto files = files_below(folder.path());
      std::erase_if(files, [](const std::string& file) { return file.starts_with("cache/"); });
      CHECK(files.size() == 6);
    }
  }
}

TEST_CASE("a file system that does not preserve times does not cause reindexing",
          "[io][formats][shared][fork]") {
  const TempDir folder;
  const std::string tar = folder.write("a.tar", make_shard(0, 30));
  const std::string jsonl = folder.write("a.jsonl", "{}\n{}\n");
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(50);
  std::filesystem::last_write_time(tar, old);
  std::filesystem::last_write_time(jsonl, old);
  const std::string cache = folder.file("cache");
  const std::vector<Words> actors = {{"index", tar, cache, "30"}, {"jsonl", jsonl, cache, "2"}};
  check_all_right(run_actors(actors, {"ENERGON_TEST_TIMES=lost"}));
  REQUIRE(files_below(cache).size() == 2);
  const auto built = [&] {
    std::vector<std::filesystem::file_time_type> times;
    for (const std::string& name : files_below(folder.path())) {
      times.push_back(std::filesystem::last_write_time(folder.file(name)));
    }
    return times;
  };
  const auto before = built();
  check_all_right(run_actors(actors, {"ENERGON_TEST_TIMES=lost"}));
  CHECK(built() == before);
}

TEST_CASE("several processes prepare one folder at once", "[io][formats][shared][fork]") {
  for (const std::string& locks : kLocks) {
    CAPTURE(locks);
    for (int round = 0; round < kRounds; ++round) {
      const TempDir folder;
      for (int i = 0; i < 4; ++i) {
        folder.write(fmt::format("a-{}.tar", i), make_shard(100 * i, 40));
      }
      int done = 0;
      for (const ChildResult& result :
           run_actors(times(3, {"prepare", folder.path(), "all"}), environment(locks))) {
        CHECK((result.exit_code == 0 || result.exit_code == kRefused));
        done += result.exit_code == 0 ? 1 : 0;
      }
      CHECK(done >= 1);
      CHECK(rows_of(folder.path()) == 160);
      const auto lint = energon::lint(folder.path());
      CHECK(lint.ok());
      CHECK(lint.samples_checksummed == 160);
      CHECK(files_below(folder.path()).size() == 4 * 3 + 6);  // nothing remains
    }
  }
}

TEST_CASE("opening during a prepare gets one set or the other", "[io][formats][shared][fork]") {
  const TempDir folder;
  for (int i = 0; i < 3; ++i) {
    folder.write(fmt::format("a-{}.tar", i), make_shard(100 * i, 10));
    folder.write(fmt::format("b-{}.tar", i), make_shard(1000 + 100 * i, 10));
  }
  prepare_folder(folder.path(), {.checksums = energon::Checksums::kWrite});
  for (const std::string& locks : kLocks) {
    CAPTURE(locks);
    for (int round = 0; round < kRounds; ++round) {
      const auto results = run_actors({{"prepare", folder.path(), round % 2 == 0 ? "some" : "all"},
                                       {"prepare", folder.path(), round % 2 == 0 ? "all" : "some"},
                                       {"open", folder.path(), "60"},
                                       {"open", folder.path(), "60"}},
                                      environment(locks));
      CHECK((results[0].exit_code == 0 || results[0].exit_code == kRefused));
      CHECK((results[1].exit_code == 0 || results[1].exit_code == kRefused));
      CHECK(results[2].exit_code == 0);
      CHECK(results[3].exit_code == 0);
      CHECK(energon::lint(folder.path()).ok());
    }
  }
}

TEST_CASE("reading several files of a dataset during a prepare gets the files of one prepare",
          "[io][formats][shared][fork]") {
  const TempDir folder;
  const std::string dataset = folder.file("d");
  folder.write("d/a-b.tar", make_shard(0, 3));
  folder.write("d/c.tar", make_shard(10, 3));
  const std::string join =
      folder.write("m.yaml",
                   "__class__: MetadatasetV2\nsplits: {train: {join: [{path: d}, {path: d}], "
                   "joiner: {__class__: C}}}\n");
  struct Reader {
    Words actor;
    std::string moment;  // id of the prepare
  };
  for (const auto& [actor, moment] : std::vector<Reader>{
           {{"store", dataset, "000011.txt", "000011"}, "/index.sqlite"},
           {{"locate", join}, "/split.yaml"},
           {{"lint", dataset}, "/split.yaml"},
           {{"lint", dataset}, "/index.sqlite"},
       }) {
    CAPTURE(actor, moment);
    prepare_folder(dataset, {.existing = energon::Existing::kOverwrite});
    // The prepare excludes a-b.tar, so c.tar becomes the first shard.
    const std::string prepare = fmt::format("{} prepare {} some", ENERGON_SHARED_ACTOR, dataset);
    check_all_right(run_actors(std::vector<Words>{actor},
                               {"ENERGON_TEST_RUN=" + prepare, "ENERGON_TEST_RUN_AT=" + moment}));
    CHECK(energon::open_split(dataset).shards.size() == 1);  // the prepare has run
  }
}

TEST_CASE("a shard that is replaced while it is opened is the one that is checked",
          "[io][formats][shared][fork]") {
  const TempDir folder;
  const std::string dataset = folder.file("d");
  folder.write("d/a.tar", make_shard(0, 30));
  prepare_folder(dataset);
  const std::string other = folder.write("other.tar", make_shard(500, 30));
  const auto later = std::filesystem::last_write_time(other) + std::chrono::seconds(100);
  std::filesystem::last_write_time(other, later);
  const auto results =
      run_actors({{"open", dataset, "1"}},
                 {fmt::format("ENERGON_TEST_RUN=cp -p {} {}/a.tar.new && mv {}/a.tar.new {}/a.tar",
                              other, dataset, dataset, dataset),
                  "ENERGON_TEST_RUN_AT=d/a.tar", "ENERGON_CACHE_DIR=" + folder.file("cache")});
  CHECK(results[0].exit_code == 1);
}

TEST_CASE("several processes prepare joins at once", "[io][formats][shared][fork]") {
  const TempDir folder;
  folder.write("one/a.tar", make_shard(0, 50));
  folder.write("two/a.tar", make_shard(0, 50));
  prepare_folder(folder.file("one"));
  prepare_folder(folder.file("two"));
  const std::string path =
      folder.write("m.yaml",
                   "__class__: MetadatasetV2\nsplits:\n  train:\n    join:\n"
                   "    - {path: one, split_part: train}\n    - {path: two, split_part: train}\n"
                   "    joiner: {__module__: m, __class__: C}\n");
  for (const std::string& locks : kLocks) {
    CAPTURE(locks);
    for (int round = 0; round < kRounds; ++round) {
      std::filesystem::remove_all(path + ".cache");
      for (const ChildResult& result : run_actors(times(3, {"join", path}), environment(locks))) {
        CHECK((result.exit_code == 0 || result.exit_code == kRefused));
      }
      CHECK(files_below(path + ".cache").size() == 1);
    }
  }
}

TEST_CASE("file caches of several processes share one folder", "[io][formats][shared][fork]") {
  const TempDir folder;
  for (int i = 0; i < 20; ++i) {
    folder.write(fmt::format("files/{}", i), std::string(5000, static_cast<char>('a' + i)));
  }
  for (const std::string& locks : kLocks) {
    CAPTURE(locks);
    for (int round = 0; round < kRounds; ++round) {
      check_all_right(run_actors(times(4, {"cache", folder.file("parent"), folder.file("files")}),
                                 environment(locks)));
    }
  }
}
