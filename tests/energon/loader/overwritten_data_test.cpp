// A dataset that is prepared anew while a loader reads it.

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/prepare/prepare.h"
#include "io/unique_fd.h"
#include "tests/energon/loader/loader_fixture.h"
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

// Turns a bit in the first part of the tar, whose header and time stay as they are.
void damage(const std::string& tar) {
  const auto time = fs::last_write_time(tar);
  const energon::UniqueFd file(::open(tar.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(::pwrite(file.get(), "?", 1, 512) == 1);
  fs::last_write_time(tar, time);
}

}  // namespace

TEST_CASE("a loader goes on with the right bytes, or ends, when a prepare drops the checksums",
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
    // Shard 0 was open. The next one has no checksums any more, which its loader was to compare.
    CHECK(error.code() == energon::ErrorCode::kNotFound);
    CHECK_THAT(error.what(), Catch::Contains("shard-001.tar.xxh3"));
  }
  CHECK(found ==
        Labels(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(found.size())));
}
