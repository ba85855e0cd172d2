// A prepare that is killed at each step of moving its files into place.

#include <csignal>
#include <filesystem>
#include <map>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/dataset_kind.h"
#include "io/dataset/prepare_commit.h"
#include "io/error.h"
#include "io/file.h"
#include "io/lint/lint.h"
#include "tests/io/actors.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

namespace fs = std::filesystem;

using energon::ErrorCode;
using energon::read_file;
using energon::testing::ChildResult;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::files_below;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::run_actors;
using energon::testing::TempDir;

namespace {

constexpr int kMostSteps = 200;

// The files that Energon reads, without the folders of prepares.
std::map<std::string, std::string> visible(const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const std::string& name : files_below(folder)) {
    if (!name.starts_with(".nv-meta.")) {
      contents[name] = read_file(folder + "/" + name);
    }
  }
  return contents;
}

// Kills a prepare before its `step`-th change of a folder, from the publishing on.
ChildResult prepare_and_kill(const std::string& folder, const std::string& what, int step) {
  return run_actors({{"prepare", folder, what}}, {"ENERGON_TEST_KILL_IN=.nv-meta.commit",
                                                  fmt::format("ENERGON_TEST_KILL_AT={}", step)})
      .front();
}

// The summary belongs to the current set.
void check_summary(const std::string& folder) {
  const auto exact = energon::open_split(folder);
  const auto set =
      energon::open_split(folder, {.check_shards = energon::CheckShards::kAtFirstRead});
  REQUIRE(set.shards.size() == exact.shards.size());
  for (std::size_t i = 0; i < set.shards.size(); ++i) {
    CHECK_FALSE(set.shards[i].is_checked);
    energon::ShardFile shard = set.check(set.shards[i]);
    shard.checksum_digest.reset();
    CHECK(shard == exact.shards[i]);
  }
}

void write_killed_shards(const TempDir& folder) {
  folder.write("a-0.tar", make_shard(0, 3));
  folder.write("b-0.tar", make_shard(10, 4));
}

}  // namespace

TEST_CASE("a prepare that is killed while it replaces files leaves the old set or the new one",
          "[io][formats][prepare][fork]") {
  const std::string what = GENERATE(as<std::string>(), "some", "all");
  CAPTURE(what);
  bool is_done = false;
  int new_sets = 0;
  for (int step = 1; !is_done; ++step) {
    CAPTURE(step);
    REQUIRE(step < kMostSteps);
    const TempDir folder;
    write_killed_shards(folder);
    prepare_folder(folder.path(), {.checksums = energon::Checksums::kWrite});
    const auto before = visible(folder.path());
    const ChildResult result = prepare_and_kill(folder.path(), what, step);
    is_done = result.exited;
    REQUIRE((is_done ? result.exit_code == 0 : result.signal == SIGKILL));

    const auto killed = visible(folder.path());
    const auto set = energon::open_split(folder.path());
    const auto opened = visible(folder.path());
    const bool is_new = opened != before;
    new_sets += is_new ? 1 : 0;
    const bool has_one = is_new && what == "some";
    CHECK(set.shards.size() == (has_one ? 1 : 2));
    for (const energon::ShardFile& shard : set.shards) {
      CHECK(shard.checksum_path.empty() == has_one);
    }
    CHECK(opened.contains("a-0.tar.xxh3") != has_one);
    CHECK((opened.at(".nv-meta/index.uuid") != before.at(".nv-meta/index.uuid")) == is_new);
    // A reader that does not know about commits finds the old set, the new one, or none.
    CHECK((killed == before || killed == opened ||
           killed.at(".nv-meta/.info.json") == energon::unfinished_note()));
    CHECK(energon::lint(folder.path()).ok());
    check_summary(folder.path());
    CHECK_FALSE(fs::exists(energon::commit_folder(folder.path()) + "/journal"));

    prepare_folder(folder.path(), {.existing = energon::Existing::kOverwrite});
    CHECK(energon::open_split(folder.path()).shards.size() == 2);
    CHECK(energon::lint(folder.path()).ok());
  }
  CHECK(new_sets > 5);
}

TEST_CASE("a first prepare that is killed leaves plain tars or a prepared dataset",
          "[io][formats][prepare][fork]") {
  bool is_done = false;
  for (int step = 1; !is_done; ++step) {
    CAPTURE(step);
    REQUIRE(step < kMostSteps);
    const TempDir folder;
    write_killed_shards(folder);
    is_done = prepare_and_kill(folder.path(), "all", step).exited;
    const bool is_published = fs::exists(energon::commit_folder(folder.path())) ||
                              fs::exists(folder.file(".nv-meta/.info.json"));
    CHECK(energon::detect_dataset_kind(folder.path()) ==
          (is_published ? energon::DatasetKind::kPrepared : energon::DatasetKind::kPlainTars));
    const auto set = energon::open_split(folder.path());
    CHECK(set.kind == (is_published ? "prepared" : "plain"));
    if (is_published) {
      check_summary(folder.path());
    }
    CHECK(set.shards.size() == 2);
  }
}

TEST_CASE("a process without permission to finish a prepare waits for one with permission",
          "[io][formats][prepare][fork]") {
  const TempDir folder;
  write_killed_shards(folder);
  prepare_folder(folder.path(), {.checksums = energon::Checksums::kWrite});
  REQUIRE(prepare_and_kill(folder.path(), "some", 3).signal == SIGKILL);
  REQUIRE(fs::exists(energon::commit_folder(folder.path())));
  const std::string finish = fmt::format("(sleep 0.3; {} open {} 1) </dev/null >/dev/null 2>&1 &",
                                         ENERGON_SHARED_ACTOR, folder.path());
  const auto results = run_actors({{"open", folder.path(), "1"}},
                                  {"ENERGON_TEST_DENY=.nv-meta.commit",
                                   "ENERGON_TEST_RUN_AT=/journal", "ENERGON_TEST_RUN=" + finish});
  CHECK(results.front().exit_code == 0);
  CHECK(energon::open_split(folder.path()).shards.size() == 1);
}

TEST_CASE("forged journals move nothing", "[io][formats][prepare]") {
  const TempDir outer;
  outer.write("precious.idx", "stays");
  outer.write("set/a.tar", make_shard(0, 3));
  const std::string folder = outer.file("set");
  using energon::CommitStep;
  const std::string good = energon::encode_journal({{.from = "0.idx", .to = "a.tar.idx"}});
  const std::vector<std::string> journals = {
      "",
      "energon prepare commit 2",
      good.substr(0, good.size() - 4),
      energon::encode_journal({{.from = "0.idx", .to = "../precious.idx"}}),
      energon::encode_journal({{.from = "0.idx", .to = outer.file("precious.idx")}}),
      energon::encode_journal({{.from = "0.idx", .to = "a.tar"}}),
      energon::encode_journal({{.from = "0.idx", .to = ".nv-meta/../../precious.idx"}}),
      energon::encode_journal({{.from = "../../../precious.idx", .to = "a.tar.idx"}}),
      energon::encode_journal({{.kind = CommitStep::Kind::kMoveTemporary,
                                .from = "../precious.idx",
                                .to = "a.tar.idx"}}),
      energon::encode_journal({{.kind = CommitStep::Kind::kRemove, .to = "a.tar"}}),
  };
  for (const std::string& journal : journals) {
    CAPTURE(journal);
    outer.write("set/.nv-meta.commit/0123456789abcdef/journal", journal);
    outer.write("set/.nv-meta.commit/0123456789abcdef/0.idx", "bad");
    const auto [code, message] = error_of([&] { energon::open_split(folder); });
    CHECK(code == ErrorCode::kCorruptData);
    CHECK(contains(message, ".nv-meta.commit"));
    CHECK(read_file(outer.file("precious.idx")) == "stays");
    CHECK(read_file(outer.file("set/a.tar")) == make_shard(0, 3));
    CHECK_FALSE(fs::exists(outer.file("set/a.tar.idx")));
  }
}

TEST_CASE("a commit without a journal is an error", "[io][formats][prepare]") {
  for (const std::string left : {"0123456789abcdef/0.idx", ".DS_Store"}) {
    CAPTURE(left);
    const TempDir folder;
    write_killed_shards(folder);
    prepare_folder(folder.path());
    folder.write(".nv-meta.commit/" + left, "of a copy that was cut short");
    const auto [code, message] = error_of([&] { energon::open_split(folder.path()); });
    CHECK(code == ErrorCode::kCorruptData);
    CHECK(contains(message, "has no journal"));
    fs::remove_all(folder.file(".nv-meta.commit"));
    CHECK(energon::open_split(folder.path()).shards.size() == 2);
  }
}

TEST_CASE("stagings of killed prepares are removed once they are old", "[io][formats][prepare]") {
  const TempDir folder;
  write_killed_shards(folder);
  folder.write(".nv-meta.prepare.0123456789abcdef/0123456789abcdef/0.idx", "left behind");
  folder.write(".nv-meta.prepare/loose/0.idx", "of an older version");
  prepare_folder(folder.path());
  CHECK(fs::exists(folder.file(".nv-meta.prepare.0123456789abcdef")));  // may still be running
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(2);
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    fs::last_write_time(entry.path(), old);
  }
  prepare_folder(folder.path(), {.existing = energon::Existing::kOverwrite});
  CHECK_FALSE(fs::exists(folder.file(".nv-meta.prepare.0123456789abcdef")));
  CHECK_FALSE(fs::exists(folder.file(".nv-meta.prepare")));
}
