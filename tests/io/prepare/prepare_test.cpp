#include "io/prepare/prepare.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/dataset_info.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/checksum_file.h"
#include "io/index/sample_index.h"
#include "io/index/tar_index.h"
#include "io/lint/lint.h"
#include "tests/io/shards.h"
#include "tests/support/shared_data.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

using energon::Checksums;
using energon::ErrorCode;
using energon::Existing;
using energon::PrepareOptions;
using energon::PrepareProgress;
using energon::PrepareReport;
using energon::read_file;
using energon::SampleIndex;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::files_below;
using energon::testing::gzip;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using Names = std::vector<std::string>;

namespace {

// Path to content of everything below a folder.
std::map<std::string, std::string> contents_of(const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const std::string& name : files_below(folder)) {
    contents[name] = read_file(folder + "/" + name);
  }
  return contents;
}

}  // namespace

TEST_CASE("prepare writes what Energon reads", "[io][formats][prepare]") {
  const TempDir folder;
  folder.write("parts/data-0.tar", make_shard(0, 3));
  folder.write("parts/data-1.tar", make_shard(3, 2));
  const PrepareReport report = prepare_folder(folder.path());
  CHECK(files_below(folder.path()) == Names{".nv-meta/.info.json", ".nv-meta/dataset.yaml",
                                            ".nv-meta/index.sqlite", ".nv-meta/index.uuid",
                                            ".nv-meta/shard_record.bin", ".nv-meta/split.yaml",
                                            "parts/data-0.tar", "parts/data-0.tar.idx",
                                            "parts/data-1.tar", "parts/data-1.tar.idx"});
  CHECK(read_file(folder.file(".nv-meta/.info.json")) ==
        fmt::format("{{\n  \"energon_version\": \"{}\",\n  \"shard_counts\": {{\n"
                    "    \"parts/data-0.tar\": 3,\n    \"parts/data-1.tar\": 2\n  }}\n}}",
                    energon::writer_version()));
  CHECK(read_file(folder.file(".nv-meta/split.yaml")) ==
        "split_parts:\n  train:\n  - parts/data-{0..1}.tar\nexclude: []\n");
  CHECK(read_file(folder.file(".nv-meta/dataset.yaml")) ==
        "__module__: megatron.energon\n__class__: CrudeWebdataset\n");
  CHECK(read_file(folder.file(".nv-meta/index.uuid")).size() == 36);
  CHECK(report.shards == 2);
  CHECK(report.samples == 5);
  CHECK(report.parts == 10);
  CHECK(report.part_names == Names{"bin", "txt"});
  CHECK(report.bytes == make_shard(0, 3).size() + make_shard(3, 2).size());
}

TEST_CASE("the index database has the rows of the shards", "[io][formats][prepare]") {
  const TempDir folder;
  // A directory entry comes first, so sample 0 does not start at byte 0; another is skipped.
  folder.write("a.tar", TarBuilder()
                            .directory("d/")
                            .file("d/0.txt", "zero")
                            .file("__meta__/x.json", "{}")
                            .file("d/1.seg.png", "one")
                            .end()
                            .text());
  prepare_folder(folder.path());
  const SampleIndex index(folder.file(".nv-meta/index.sqlite"));
  CHECK(index.find_sample("d/0") == energon::SampleLocation{0, 0, {512, 2048}});
  CHECK(index.find_sample("d/1") == energon::SampleLocation{0, 1, {2560, 1024}});
  CHECK(index.find_part("d/1.seg.png") == energon::PartLocation{0, 1, "seg.png", {3072, 3}});
  const auto tar_index = energon::TarIndex::load(folder.file("a.tar.idx"), 4608);
  CHECK(tar_index.range(0) == energon::ByteRange{0, 2560});
  CHECK(tar_index.range(1) == energon::ByteRange{2560, 1024});
}

TEST_CASE("prepare writes the same files with any number of threads", "[io][formats][prepare]") {
  std::map<std::string, std::string> first;
  for (const int threads : {1, 2, 7}) {
    CAPTURE(threads);
    const TempDir folder;
    for (int i = 0; i < 20; ++i) {
      folder.write(fmt::format("s-{:02d}.tar", i), make_shard(100 * i, i % 5 + 1));
    }
    prepare_folder(folder.path(), {.checksums = Checksums::kWrite, .threads = threads});
    auto contents = contents_of(folder.path());
    contents.erase(".nv-meta/index.uuid");
    contents.erase(".nv-meta/shard_record.bin");  // contains the UUID and the times of the shards
    first = first.empty() ? contents : first;
    CHECK(contents == first);
  }
}

TEST_CASE("a prepared dataset opens, also by split part", "[io][formats][prepare]") {
  const TempDir folder;
  for (int i = 0; i < 10; ++i) {
    folder.write(fmt::format("s-{}.tar", i), make_shard(100 * i, 2));
  }
  prepare_folder(folder.path(), {.split_ratios = {{"train", 8}, {"val", 1}, {"test", 1}},
                                 .checksums = Checksums::kWrite});
  const auto set = energon::open_split(folder.path(), {.split_part = "val"});
  REQUIRE(set.shards.size() == 1);
  CHECK(set.shards[0].name == "s-8.tar");
  CHECK(energon::ChecksumFile::load(set.shards[0].checksum_path, set.shards[0].tar_size, 2)
            .sample_count() == 2);
  CHECK(energon::lint(folder.path()).ok());
}

TEST_CASE("a ratio that leaves split parts without shards is an error or a warning",
          "[io][formats][prepare]") {
  const TempDir folder;
  const PrepareOptions options{.split_ratios = {{"train", 8}, {"val", 1}, {"test", 1}}};
  folder.write("s-0.tar", make_shard(0, 2));
  const auto before = files_below(folder.path());
  const auto [code, message] = error_of([&] { prepare_folder(folder.path(), options); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK_THAT(message, Catch::Contains("split part 'train' gets no shard: 1 shard in the ratio "
                                      "8,1,1") &&
                          Catch::Contains("--split-ratio 1,0,0") &&
                          Catch::Contains("--split-parts"));
  CHECK(files_below(folder.path()) == before);
  for (int i = 1; i < 5; ++i) {
    folder.write(fmt::format("s-{}.tar", i), make_shard(100 * i, 2));
  }
  const PrepareReport report = prepare_folder(folder.path(), options);
  REQUIRE(report.warnings.size() == 1);
  CHECK_THAT(report.warnings[0],
             Catch::Contains("split part 'val' gets no shard: 5 shards in the ratio 8,1,1"));
  CHECK(energon::open_split(folder.path(), {.split_part = "train"}).shards.size() == 4);
  // A part with ratio 0 may be empty.
  const PrepareReport all = prepare_folder(
      folder.path(),
      {.split_ratios = {{"train", 1}, {"val", 0}}, .existing = Existing::kOverwrite});
  CHECK(all.warnings.empty());
}

TEST_CASE("listed shards are prepared in their order, with the split that is given",
          "[io][formats][prepare]") {
  const TempDir folder;
  for (int i = 0; i < 4; ++i) {
    folder.write(fmt::format("data-{}.tar", i), make_shard(i, 1));
  }
  const PrepareOptions options{
      .shards = Names{"data-2.tar", "data-0.tar", "data-1.tar"},
      .split = energon::SplitConfig{.parts = {{"train", {"data-0.tar", "data-1.tar"}},
                                              {"val", {"data-2.tar"}},
                                              {"test", {}}}},
      .split_config_name = "parts.json"};
  CHECK(prepare_folder(folder.path(), options).shards == 3);
  CHECK(energon::read_dataset_info(folder.file(".nv-meta"))->shards[0].name == "data-2.tar");
  CHECK(read_file(folder.file(".nv-meta/parts.json")) ==
        "{\n  \"split_parts\": {\n    \"train\": [\n      \"data-{0..1}.tar\"\n    ],\n    "
        "\"val\": [\n"
        "      \"data-2.tar\"\n    ],\n    \"test\": []\n  },\n  \"exclude\": []\n}");
  CHECK(!std::filesystem::exists(folder.file(".nv-meta/split.yaml")));

  const auto refused = [&](const Names& names) {
    const PrepareOptions again{.shards = names, .existing = Existing::kOverwrite};
    return error_of([&] { prepare_folder(folder.path(), again); }).first;
  };
  CHECK(refused({"data-9.tar"}) == ErrorCode::kNotFound);
  CHECK(refused({"../data-0.tar"}) == ErrorCode::kInvalidArgument);
  CHECK(refused({".nv-meta/parts.json"}) == ErrorCode::kInvalidArgument);
  CHECK(refused({}) == ErrorCode::kNotFound);
}

TEST_CASE("all bad shards are named with byte and reason, and nothing remains",
          "[io][formats][prepare]") {
  const TempDir folder;
  folder.write("a.tar", make_shard(0, 3));
  folder.write("b.tar", make_shard(3, 3).substr(0, 2000));
  folder.write("c.tar", std::string(1024, '\0'));
  std::string flipped = make_shard(10, 3);
  flipped[2560 + 1] ^= 1;
  folder.write("d.tar", flipped);
  const auto before = contents_of(folder.path());
  const auto [code, message] = error_of([&] { prepare_folder(folder.path()); });
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "3 problems"));
  CHECK(contains(message, "b.tar: "));
  CHECK(contains(message, "c.tar: no samples"));
  CHECK(contains(message, "d.tar: "));
  CHECK(contains(message, "[byte 2560]"));
  CHECK_FALSE(contains(message, "a.tar: "));
  CHECK(contents_of(folder.path()) == before);
}

TEST_CASE("a shard that lost samples since it was indexed is only prepared on request",
          "[io][formats][prepare]") {
  const TempDir folder;
  const std::string content = make_shard(0, 5);
  folder.write("a.tar", content);
  energon::open_split(folder.path());  // indexes it
  folder.write("a.tar", content.substr(0, 3 * 2560) + std::string(1024, '\0'));
  const auto before = contents_of(folder.path());
  const auto [code, message] = error_of([&] { prepare_folder(folder.path()); });
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "a.tar.idx"));
  CHECK(contents_of(folder.path()) == before);
  const auto report = prepare_folder(folder.path(), {.existing = Existing::kOverwrite});
  CHECK(report.samples == 3);
  REQUIRE(report.warnings.size() == 1);
  CHECK(contains(report.warnings[0], "was truncated"));
}

TEST_CASE("shards are found as in Energon: through links, by path component, not hidden",
          "[io][formats][prepare]") {
  const TempDir folder;
  const TempDir elsewhere;
  elsewhere.write("linked/c.tar", make_shard(40, 2));
  folder.write("train-extra/b.tar", make_shard(10, 2));
  folder.write("train/a.tar", make_shard(0, 2));
  folder.write("._a.tar", "of macOS");
  folder.write(".hidden/x.tar", make_shard(90, 2));
  std::filesystem::create_directory_symlink(elsewhere.file("linked"), folder.file("more"));
  std::filesystem::create_directory_symlink(folder.path(), folder.file("train/loop"));
  const PrepareReport report = prepare_folder(folder.path());
  CHECK(report.samples == 6);
  REQUIRE(report.warnings.size() == 1);
  CHECK(contains(report.warnings[0], "1 shard and 1 folder; the first is '._a.tar'"));
  Names names;
  const auto info = energon::read_dataset_info(folder.file(".nv-meta"));
  REQUIRE(info);
  for (const auto& shard : info->shards) {
    names.push_back(shard.name);
  }
  CHECK(names == Names{"more/c.tar", "train/a.tar", "train-extra/b.tar"});
  CHECK(energon::open_split(folder.path()).shards.size() == 3);
  // A prepared dataset keeps its order.
  folder.write(".nv-meta/split.yaml",
               "split_parts: {train: [train-extra/b.tar, train/a.tar]}\nexclude: []\n");
  CHECK(energon::open_split(folder.path()).shards[0].name == "train-extra/b.tar");
}

TEST_CASE("a key in two shards is an error that names both", "[io][formats][prepare]") {
  const TempDir folder;
  folder.write("a.tar", make_shard(0, 3));
  folder.write("b.tar", make_shard(2, 3));
  const auto [code, message] = error_of([&] { prepare_folder(folder.path()); });
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "'000002'"));
  CHECK(contains(message, "a.tar (sample 2)"));
  CHECK(contains(message, "b.tar (sample 0)"));
  CHECK(files_below(folder.path()) == Names{"a.tar", "b.tar"});
}

TEST_CASE("a prepared folder is prepared again only on demand", "[io][formats][prepare]") {
  const TempDir folder;
  folder.write("a.tar", make_shard(0, 3));
  prepare_folder(folder.path(), {.checksums = Checksums::kWrite});
  folder.write(".nv-meta/dataset.yaml", "mine");
  folder.write(".nv-meta/sample_loader.py", "mine");
  folder.write("b.tar", make_shard(3, 3));
  CHECK(error_of([&] { prepare_folder(folder.path()); }).first == ErrorCode::kInvalidArgument);
  prepare_folder(folder.path(), {.existing = Existing::kOverwrite});
  CHECK(energon::open_split(folder.path()).shards.size() == 2);
  CHECK(read_file(folder.file(".nv-meta/dataset.yaml")) == "mine");
  CHECK(read_file(folder.file(".nv-meta/sample_loader.py")) == "mine");
  CHECK_FALSE(std::filesystem::exists(folder.file("a.tar.xxh3")));
}

TEST_CASE("a failed prepare leaves the earlier one unchanged", "[io][formats][prepare]") {
  const TempDir folder;
  folder.write("a.tar", make_shard(0, 3));
  prepare_folder(folder.path());
  folder.write("b.tar", "no tar");
  const auto before = contents_of(folder.path());
  CHECK(error_of([&] {
          prepare_folder(folder.path(), {.existing = Existing::kOverwrite});
        }).first == ErrorCode::kCorruptData);
  CHECK(contents_of(folder.path()) == before);
}

TEST_CASE("a stopped prepare leaves the folder unchanged", "[io][formats][prepare]") {
  struct StoppingSink : energon::ProgressSink {
    std::stop_source source;
    void on_progress(const PrepareProgress& progress) override {
      if (progress.shards_done == 3) {
        source.request_stop();
      }
    }
  };
  const TempDir folder;
  for (int i = 0; i < 30; ++i) {
    folder.write(fmt::format("s-{:02d}.tar", i), make_shard(100 * i, 3));
  }
  const auto before = contents_of(folder.path());
  StoppingSink sink;
  const PrepareOptions options{.stop = sink.source.get_token()};
  CHECK(error_of([&] { energon::prepare(folder.path(), options, sink); }).first ==
        ErrorCode::kCancelled);
  CHECK(contents_of(folder.path()) == before);
  sink.source = std::stop_source();
  prepare_folder(folder.path());
}

TEST_CASE("a killed prepare is not mistaken for a finished one", "[io][formats][prepare][fork]") {
  const TempDir folder;
  for (int i = 0; i < 10; ++i) {
    folder.write(fmt::format("s-{}.tar", i), make_shard(100 * i, 20));
  }
  unsigned seed = 3;
  for (int round = 0; round < 15; ++round) {
    CAPTURE(round);
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      try {
        prepare_folder(folder.path(), {.existing = Existing::kOverwrite, .threads = 2});
      } catch (...) {
      }
      ::_exit(0);
    }
    seed = seed * 1664525 + 1013904223;
    std::this_thread::sleep_for(std::chrono::microseconds((seed >> 16) % 30'000));
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (std::filesystem::exists(folder.file(".nv-meta/.info.json"))) {
      CHECK(energon::lint(folder.path()).ok());
    }
  }
  prepare_folder(folder.path(), {.existing = Existing::kOverwrite});
  CHECK(energon::lint(folder.path()).ok());
  CHECK_FALSE(std::filesystem::exists(folder.file(".nv-meta.commit")));
}

TEST_CASE("concurrent prepares of one folder are refused", "[io][formats][prepare]") {
  const TempDir folder;
  folder.write("a.tar", make_shard(0, 3));
  const energon::UniqueFd other(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY));
  REQUIRE(::flock(other.get(), LOCK_EX) == 0);
  const auto [code, message] = error_of([&] { prepare_folder(folder.path()); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "another process"));
}

TEST_CASE("bad options and folders are refused before anything is read", "[io][formats][prepare]") {
  const TempDir folder;
  const auto code = [&](const PrepareOptions& options) {
    return error_of([&] { prepare_folder(folder.path(), options); }).first;
  };
  CHECK(code({}) == ErrorCode::kNotFound);
  CHECK(error_of([&] { prepare_folder(folder.file("absent")); }).first == ErrorCode::kNotFound);
  folder.write("a.tar", make_shard(0, 3));
  CHECK(code({.split_ratios = {{"a", 1}}, .split_patterns = {{"a", "."}}}) ==
        ErrorCode::kInvalidArgument);
  CHECK(code({.split_ratios = {{"a", 1}}, .split = energon::SplitConfig{}}) ==
        ErrorCode::kInvalidArgument);
  CHECK(code({.split_config_name = "split"}) == ErrorCode::kInvalidArgument);
  CHECK(code({.split_config_name = "../split.yaml"}) == ErrorCode::kInvalidArgument);
  CHECK(code({.split_patterns = {{"a", "*.tar"}}}) == ErrorCode::kInvalidArgument);
  CHECK(code({.exclude_regexes = {"("}}) == ErrorCode::kInvalidArgument);
  CHECK(code({.exclude_regexes = {"a"}}) == ErrorCode::kNotFound);
  CHECK(code({.threads = 0}) == ErrorCode::kInvalidArgument);
  folder.write("a.tgz", gzip(make_shard(3, 3)));
  CHECK(code({.cache_dir = folder.file("cache")}) == ErrorCode::kInvalidArgument);
  CHECK(files_below(folder.path()) == Names{"a.tar", "a.tgz"});
  prepare_folder(folder.path(), {.exclude_regexes = {"tgz$"}});
}

TEST_CASE("progress counts shards, samples and bytes", "[io][formats][prepare]") {
  const TempDir folder;
  folder.write("a.tar", make_shard(0, 3));
  folder.write("b.tar", make_shard(3, 2));
  energon::testing::SilentSink sink;
  energon::prepare(folder.path(), {.threads = 2}, sink);
  REQUIRE(sink.all.size() == 2);
  CHECK(sink.all[0].samples == 3);
  CHECK(sink.all[1].samples == 5);
  CHECK(sink.all[1].shards_done == 2);
  CHECK(sink.all[1].shards_total == 2);
}

TEST_CASE("real shards are prepared", "[io][formats][prepare]") {
  const auto path = energon::testing::shared_data("webdataset");
  if (!path) {
    return energon::testing::skipped();
  }
  const TempDir folder;
  const TempDir cache;
  for (const char* name : {"sample.tgz", "testgz.tar", "tendata.tar"}) {
    folder.write(name, read_file(*path + "/" + name));
  }
  const PrepareOptions options{.checksums = Checksums::kWrite, .cache_dir = cache.path()};
  const PrepareReport report = prepare_folder(folder.path(), options);
  CHECK(report.samples == 1190);
  CHECK(report.part_names == Names{"cls", "png", "ten", "txt.gz"});
  const auto lint = energon::lint(folder.path(), {.cache_dir = cache.path()});
  CHECK(lint.ok());
  CHECK(lint.samples_checksummed == 1190);
  const SampleIndex index(folder.file(".nv-meta/index.sqlite"));
  const auto part = index.find_part("000007.ten");
  REQUIRE(part);
  CHECK(part->tar_file_id == 1);
}
