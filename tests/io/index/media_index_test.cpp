#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/index/media_table.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::MediaIndex;
using energon::MediaTableWriter;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::TempDir;

TEST_CASE("media metadata without samples is read, but no samples", "[io][formats][media]") {
  const TempDir folder;
  const std::string path = folder.write("index.sqlite", "");
  CHECK(error_of([&] { const MediaIndex index(path); }).first == ErrorCode::kUnsupported);
  {
    MediaTableWriter writer(path);
    writer.add("sub/a.jpg", "image", R"({"width":3})");
    writer.add("b.jpg", "image", "{");
    writer.finish();
  }
  const MediaIndex index(path);
  CHECK(index.find("sub/a.jpg")->width == 3);
  CHECK(index.find("sub/a.jpg")->width == 3);
  CHECK_FALSE(index.find("a.jpg"));
  const auto [code, message] = error_of([&] { index.find("b.jpg"); });
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "sample: b.jpg"));
  CHECK(contains(message, "path: " + path));
  CHECK(error_of([&] { const MediaIndex none(folder.file("none")); }).first ==
        ErrorCode::kNotFound);
  const std::string text = folder.write("text", std::string(5000, 'x'));
  CHECK(error_of([&] { const MediaIndex none(text); }).first == ErrorCode::kCorruptData);
}

TEST_CASE("media metadata opened before a fork is refused after it", "[io][formats][media][fork]") {
  const TempDir folder;
  const std::string path = folder.write("index.sqlite", "");
  {
    MediaTableWriter writer(path);
    writer.add("a.jpg", "image", "{}");
    writer.finish();
  }
  const auto index = std::make_unique<MediaIndex>(path);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool is_refused = error_of([&] { index->find("a.jpg"); }).first == ErrorCode::kCancelled;
    ::_exit(is_refused && !index->is_of_this_process() && MediaIndex(path).find("a.jpg").has_value()
                ? 0
                : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(index->find("a.jpg"));
}
