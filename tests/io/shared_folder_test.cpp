#include "io/shared_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/file.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"

namespace fs = std::filesystem;

using energon::as_bytes;
using energon::ErrorCode;
using energon::FileSource;
using energon::NewFile;
using energon::read_file;
using energon::target_of_temporary;
using energon::testing::error_of;
using energon::testing::TempDir;

namespace {

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

void make_old(const std::string& path, std::chrono::minutes age) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - age);
}

}  // namespace

TEST_CASE("temporary names reveal their target", "[io][shared_folder]") {
  const std::string name = energon::temporary_name("/d/a.idx");
  CHECK(target_of_temporary(name) == "/d/a.idx");
  CHECK(name != energon::temporary_name("/d/a.idx"));
  for (const char* other :
       {"a.idx", "a.tmp", "a.tmp.", "a.tmp.12", "a.tmp.12.", "a.tmp..1", "a.tmp.0123456789abcdeF",
        "a.tmp.0123456789abcde", ".tmp.0123456789abcdef", "a.tmp.4711.0"}) {
    CAPTURE(other);
    CHECK(target_of_temporary(other).empty());
  }
}

TEST_CASE("the first file published with publish_once() is kept", "[io][shared_folder]") {
  const TempDir folder;
  NewFile first(folder.file("a"));
  first.append(as_bytes("first"));
  {
    NewFile second(folder.file("a"));
    second.append(as_bytes("second"));
    CHECK(names_in(folder.path()).size() == 2);
    CHECK(first.publish_once());
    const auto identity = FileSource(folder.file("a")).identity();
    CHECK_FALSE(second.publish_once());
    CHECK(FileSource(folder.file("a")).identity() == identity);
  }
  CHECK(read_file(folder.file("a")) == "first");
  CHECK(names_in(folder.path()) == std::set<std::string>{"a"});
}

TEST_CASE("a file whose temporary file was removed is not published", "[io][shared_folder]") {
  const TempDir folder;
  folder.write("a", "old");
  NewFile file(folder.file("a"));
  file.append(as_bytes("new"));
  fs::remove(file.temporary_path());
  CHECK_THAT(error_of([&] { file.replace(); }, ErrorCode::kNotFound),
             Catch::Contains("cannot rename"));
  CHECK(read_file(folder.file("a")) == "old");
  NewFile first(folder.file("b"));
  fs::remove(first.temporary_path());
  CHECK_THAT(error_of([&] { first.publish_once(); }, ErrorCode::kNotFound),
             Catch::Contains("cannot publish the temporary file"));
  CHECK_FALSE(fs::exists(folder.file("b")));
}

TEST_CASE("a new file has the time of its source", "[io][shared_folder]") {
  const TempDir folder;
  const std::string source = folder.write("source", "x");
  make_old(source, std::chrono::hours(100));
  const auto identity = FileSource(source).identity();
  NewFile file(folder.file("a"));
  file.append(as_bytes("new"));
  file.give_time_of(identity);
  file.replace();
  CHECK(energon::has_time_of(folder.file("a"), identity));
  make_old(folder.file("a"), std::chrono::hours(99));
  CHECK_FALSE(energon::has_time_of(folder.file("a"), identity));
  CHECK(energon::give_time_of(folder.file("a"), identity));
  CHECK_FALSE(energon::has_time_of(folder.file("absent"), identity));
  make_old(source, std::chrono::hours(24 * 365 * 80));  // before 1970
  CHECK(energon::give_time_of(folder.file("a"), FileSource(source).identity()));
}

TEST_CASE("leftovers of killed writers are removed once they are old", "[io][shared_folder]") {
  const TempDir folder;
  const std::string old = folder.write("a.idx.tmp.0123456789abcdef", "x");
  const std::string young = folder.write("a.idx.tmp.1123456789abcdef", "x");
  const std::string of_others = folder.write("a.txt.tmp.0123456789abcdef", "x");
  const std::string no_temporary = folder.write("a.idx", "x");
  for (const std::string& path : {old, of_others, no_temporary}) {
    make_old(path, std::chrono::minutes(61));
  }
  make_old(young, std::chrono::minutes(59));
  fs::create_directory(folder.file("b.idx.tmp.0123456789abcdef"));
  make_old(folder.file("b.idx.tmp.0123456789abcdef"), std::chrono::minutes(61));
  energon::remove_abandoned(folder.path(),
                            [](std::string_view target) { return target.ends_with(".idx"); });
  CHECK(names_in(folder.path()) == std::set<std::string>{"a.idx", "a.idx.tmp.1123456789abcdef",
                                                         "a.txt.tmp.0123456789abcdef",
                                                         "b.idx.tmp.0123456789abcdef"});
}

TEST_CASE("a lock with another holder is busy", "[io][shared_folder]") {
  const TempDir folder;
  const std::string path = folder.write("lock", "");
  const energon::UniqueFd first(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const energon::UniqueFd second(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  CHECK(energon::try_lock(first.get()) == energon::Locked::kYes);
  CHECK(energon::try_lock(second.get()) == energon::Locked::kNo);
}
