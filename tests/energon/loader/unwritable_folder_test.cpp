// Data in a folder that its reader may not write, as is common for shared data.

#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "io/prepare/prepare.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/skip.h"
#include "wrappers/recipe/open_data.h"

namespace {

namespace fs = std::filesystem;

using energon::LoaderOptions;
using energon::SavableDataLoader;
using energon::testing::Labels;
using energon::testing::run_in_child;
using energon::testing::take;
using energon::testing::TempDir;

constexpr uid_t kNobody = 65534;
constexpr int kNotPermitted = 77;

// From now on, this process belongs to another user. Returns false if the machine does not permit
// it.
bool become_nobody() {
  // A process that changed its user is not dumpable, so it does not own its files in /proc.
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0;
}

void prepare_all(const std::string& path) {
  class Silent final : public energon::ProgressSink {
    void on_progress(const energon::PrepareProgress& /*progress*/) override {}
  } silent;
  energon::prepare(
      path,
      {.split_ratios = {{.part = "train", .weight = 1}}, .checksums = energon::Checksums::kWrite},
      silent);
}

Labels delivered(const std::string& path, const std::string& cache, int workers) {
  const auto pipeline = energon::train_dataset(path, {.open = {.cache_dir = cache}},
                                               {.batch_size = 2, .shuffle_buffer_size = 7});
  SavableDataLoader loader(pipeline, {.worker_config = {.num_workers = workers}});
  return take(loader, 40);
}

// Names and times of all entries of a folder.
std::map<std::string, fs::file_time_type> listing(const std::string& path) {
  std::map<std::string, fs::file_time_type> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    files.emplace(entry.path().string(), entry.last_write_time());
  }
  return files;
}

}  // namespace

TEST_CASE("data can be read without write access to its folder", "[loader][unwritable][fork]") {
  if (::geteuid() != 0) {
    return energon::testing::skip_case("only root can become another user");
  }
  const TempDir folder;
  const TempDir cache;
  const TempDir reference;
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(cache.path(), fs::perms(0777));
  energon::testing::write_numbered_shards(folder, energon::testing::kTens);
  bool needs_cache = true;
  SECTION("plain tars") {}
  SECTION("prepared") {
    prepare_all(folder.path());
    needs_cache = false;
  }
  SECTION("prepared, and copied with other times") {
    prepare_all(folder.path());
    fs::last_write_time(folder.file("shard-003.tar"),
                        fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  const auto before = listing(folder.path());
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    // The parent reads a copy, so that the files that it creates next to the data do not exist for
    // the child.
    const Labels expected = [&] {
      const std::string copy = reference.file(std::to_string(workers));
      fs::copy(folder.path(), copy, fs::copy_options::recursive);
      return delivered(copy, reference.path(), workers);
    }();
    const auto child = run_in_child([&] {
      if (!become_nobody() || ::access(folder.path().c_str(), R_OK | X_OK) != 0) {
        return kNotPermitted;
      }
      if (::access(folder.path().c_str(), W_OK) == 0) {
        return 2;
      }
      return delivered(folder.path(), cache.path(), workers) == expected ? 0 : 1;
    });
    if (child.exit_code == kNotPermitted) {
      return energon::testing::skip_case("this machine does not allow changing the user");
    }
    CHECK(child.exit_code == 0);
  }
  CHECK(listing(folder.path()) == before);
  CHECK(fs::is_empty(cache.path()) != needs_cache);
}
