// A dataset that is prepared again while a loader reads it.

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/file.h"
#include "io/prepare/prepare.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/child_runner.h"
#include "wrappers/recipe/open_data.h"

namespace {

namespace fs = std::filesystem;

using energon::Checksums;
using energon::Error;
using energon::LoaderOptions;
using energon::SavableDataLoader;
using energon::testing::Labels;
using energon::testing::take;
using energon::testing::TempDir;

void prepare_anew(const std::string& path, Checksums checksums) {
  class Silent final : public energon::ProgressSink {
    void on_progress(const energon::PrepareProgress& /*progress*/) override {}
  } silent;
  energon::prepare(path,
                   {.split_ratios = {{.part = "train", .weight = 1}},
                    .existing = energon::Existing::kOverwrite,
                    .checksums = checksums},
                   silent);
}

// Flips a bit in the first part of the tar and keeps its header and time.
void damage(const std::string& tar) {
  const auto time = fs::last_write_time(tar);
  const energon::UniqueFd file(::open(tar.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(::pwrite(file.get(), "?", 1, 512) == 1);
  fs::last_write_time(tar, time);
}

}  // namespace

TEST_CASE("a loader continues with the right bytes, or ends, when a prepare drops the checksums",
          "[loader][overwritten][fork]") {
  const TempDir folder;
  energon::testing::write_numbered_shards(folder, energon::testing::kTens);
  prepare_anew(folder.path(), Checksums::kWrite);
  const int workers = GENERATE(0, 2);
  const auto pipeline = energon::val_dataset(folder.path(), {}, {.batch_size = 1});
  const LoaderOptions options{.worker_config = {.num_workers = workers}, .prefetch_factor = 1};
  const Labels expected = [&] {
    SavableDataLoader loader(pipeline, options);
    return take(loader, 55);
  }();
  SavableDataLoader loader(pipeline, options);
  Labels found = take(loader, 3);
  prepare_anew(folder.path(), Checksums::kNone);
  for (int shard = 0; shard < 6; ++shard) {
    damage(folder.file("shard-00" + std::to_string(shard) + ".tar"));
  }
  try {
    while (found.size() < expected.size()) {
      found.push_back(take(loader, 1).front());
    }
    FAIL_CHECK("damaged samples were delivered");
  } catch (const Error& error) {
    // Shard 0 was open. The next shard no longer has the checksums that its loader must compare.
    CHECK(error.code() == energon::ErrorCode::kNotFound);
    CHECK_THAT(error.what(), Catch::Contains("shard-001.tar.xxh3"));
  }
  CHECK(found ==
        Labels(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(found.size())));
}

TEST_CASE("indices that are truncated in place while a loader runs are an error that names one",
          "[loader][overwritten][fork]") {
  const TempDir folder;
  energon::testing::write_numbered_shards(folder, {700, 700, 700});  // indices larger than a page
  const bool is_prepared = GENERATE(false, true);
  if (is_prepared) {
    prepare_anew(folder.path(), Checksums::kWrite);
  }
  const int workers = GENERATE(0, 1);
  const std::uintmax_t size = GENERATE(0, 8 * 300);
  CAPTURE(is_prepared, workers, size);
  const auto pipeline = energon::val_dataset(folder.path(), {}, {.batch_size = 10});
  const LoaderOptions options{.worker_config = {.num_workers = workers}, .prefetch_factor = 1};
  const Labels expected = [&] {
    SavableDataLoader loader(pipeline, options);
    return take(loader, 210);
  }();
  // In a child, as a SIGBUS would end the process.
  const auto child = energon::testing::run_in_child([&] {
    SavableDataLoader loader(pipeline, options);
    Labels found = take(loader, 2);
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      if (entry.path().extension() == ".idx" || entry.path().extension() == ".xxh3") {
        fs::resize_file(entry.path(), size);
      }
    }
    try {
      while (found.size() < expected.size()) {
        found.push_back(take(loader, 1).front());
        if (found.back() != expected[found.size() - 1]) {
          return 1;
        }
      }
    } catch (const Error& error) {
      const std::string text = error.what();
      const bool is_named = text.find("shard-001.tar.idx") != std::string::npos;
      // The index of the first shard was read before.
      return error.code() == energon::ErrorCode::kCorruptData && is_named && found.size() >= 69 ? 0
                                                                                                : 2;
    }
    return 3;
  });
  CHECK(child.signal == 0);
  CHECK(child.exit_code == 0);
}
