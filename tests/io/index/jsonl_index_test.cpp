#include "io/index/jsonl_index.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/file.h"
#include "io/shared_folder.h"
#include "tests/io/shards.h"
#include "tests/support/child_runner.h"
#include "tests/support/temp_dir.h"

using energon::ByteRange;
using energon::ensure_jsonl_indexed;
using energon::ErrorCode;
using energon::FileSource;
using energon::JsonlIndex;
using energon::write_jsonl_index;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::files_below;
using energon::testing::TempDir;
using Entries = std::vector<std::uint64_t>;

namespace {

// The entries of the index of a file with this content.
Entries index_of(const std::string& content) {
  const TempDir folder;
  const FileSource jsonl(folder.write("x.jsonl", content));
  const std::int64_t samples = write_jsonl_index(jsonl, folder.file("x.jsonl.idx"));
  const JsonlIndex index = JsonlIndex::load(folder.file("x.jsonl.idx"), content.size());
  CHECK(index.sample_count() == samples);
  return {index.entries().begin(), index.entries().end()};
}

std::pair<ErrorCode, std::string> index_error(const std::string& content) {
  return error_of([&] { index_of(content); });
}

std::filesystem::file_time_type hours_ago(int hours) {
  return std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours);
}

}  // namespace

TEST_CASE("every line that is not blank is a sample", "[io][formats][jsonl]") {
  CHECK(index_of("{}\n{}\n") == Entries{0, 3, 6});
  CHECK(index_of("{}\n{}") == Entries{0, 3, 5});
  CHECK(index_of("{}") == Entries{0, 2});
  CHECK(index_of(" {\"a\": 1}\t\r\n{}\n") == Entries{0, 12, 15});
}

TEST_CASE("blank lines belong to the sample before them, leading ones to the first",
          "[io][formats][jsonl]") {
  CHECK(index_of("\n{}\n\n{}\n") == Entries{0, 5, 8});
  CHECK(index_of("\n \n{}\n\n\t\n{}\n\n") == Entries{0, 9, 13});
  std::string content = "\n";
  for (int i = 0; i < 10; ++i) {
    content += "{\"i\": " + std::to_string(i) + "}\n" + (i % 3 == 0 ? "\n \r\n" : "");
  }
  CHECK(index_of(content).size() == 11);
}

TEST_CASE("a line may be longer than a block", "[io][formats][jsonl]") {
  const std::string line = "{\"a\": \"" + std::string(3 << 20, 'x') + "\"}\n";
  CHECK(index_of(line + "\n" + line) == Entries{0, line.size() + 1, 2 * line.size() + 1});
}

TEST_CASE("the index file consists of the bytes of the entries", "[io][formats][jsonl]") {
  const TempDir folder;
  const FileSource jsonl(folder.write("x.jsonl", "{}\n{}\n"));
  write_jsonl_index(jsonl, folder.file("x.jsonl.idx"));
  CHECK(energon::read_file(folder.file("x.jsonl.idx")) ==
        std::string("\0\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0", 24));
  CHECK(files_below(folder.path()) == std::vector<std::string>{"x.jsonl", "x.jsonl.idx"});
}

TEST_CASE("a line that is not an object is an error with line and byte", "[io][formats][jsonl]") {
  const auto [code, message] = index_error("{}\n\n[1]\n");
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "line 3 is not a JSON object: it begins with '['"));
  CHECK(contains(message, "byte: 4]"));
  CHECK(
      contains(index_error("{\"a\": 1\n").second, "line 1 is not a JSON object: it ends with '1'"));
  CHECK(contains(index_error("\xEF\xBB\xBF{}\n").second, "begins with '\\xef'"));
  CHECK(contains(index_error(std::string("\0{}\n", 4)).second, "zero byte"));
  const auto [code2, joined] = index_error(std::string("{}\n{}\0{}\n", 9));  // over a line end
  CHECK(code2 == ErrorCode::kCorruptData);
  CHECK(contains(joined, "line 2 contains a zero byte"));
  CHECK(contains(joined, "byte: 5]"));
  CHECK(contains(index_error("").second, "no samples"));
  CHECK(contains(index_error("\n \n").second, "no samples"));
}

TEST_CASE("an index that cannot be built leaves no file", "[io][formats][jsonl]") {
  const TempDir folder;
  const FileSource jsonl(folder.write("x.jsonl", "{}\nno\n"));
  CHECK(error_of([&] { write_jsonl_index(jsonl, folder.file("x.jsonl.idx")); }).first ==
        ErrorCode::kCorruptData);
  std::stop_source stop;
  stop.request_stop();
  CHECK(error_of([&] {
          write_jsonl_index(jsonl, folder.file("x.jsonl.idx"), stop.get_token());
        }).first == ErrorCode::kCancelled);
  CHECK(files_below(folder.path()) == std::vector<std::string>{"x.jsonl"});
}

TEST_CASE("ranges cover the file", "[io][formats][jsonl]") {
  const auto index = JsonlIndex::from_entries({0, 3, 10}, 10);
  CHECK(index.range(0) == ByteRange{0, 3});
  CHECK(index.range(1) == ByteRange{3, 7});
  for (const std::int64_t i : {-1, 2}) {
    CAPTURE(i);
    CHECK(error_of([&] { index.range(i); }).first == ErrorCode::kInvalidArgument);
  }
  CHECK(index.digest() == JsonlIndex::from_entries({0, 3, 10}, 10).digest());
  CHECK(index.digest() != JsonlIndex::from_entries({0, 4, 10}, 10).digest());
}

TEST_CASE("an invalid index is refused", "[io][formats][jsonl]") {
  const auto from_error = [](const Entries& entries) {
    const auto [code, message] =
        error_of([&] { JsonlIndex::from_entries(entries, 10, "x.jsonl.idx"); });
    CHECK(code == ErrorCode::kCorruptData);
    CHECK(contains(message, "[path: x.jsonl.idx"));
    return message;
  };
  CHECK(contains(from_error({0}), "no samples"));
  CHECK(contains(from_error({3, 10}), "begins at byte 3"));
  CHECK(contains(from_error({0, 4, 4, 10}), "entry 2 is 4, but entry 1 is 4"));
  CHECK(contains(from_error({0, 4, 9}), "ends at byte 9, but the file has 10 bytes"));
  const TempDir folder;
  const auto load_error = [&](const std::string& bytes) {
    return error_of([&] { JsonlIndex::load(folder.write("i", bytes), 10); }).second;
  };
  CHECK(contains(load_error(std::string(17, '\0')), "it has 17 bytes"));
  CHECK(contains(load_error(""), "it has 0 bytes"));
  CHECK(contains(load_error(std::string(8000, '\0')), "it has 8000 bytes"));
}

TEST_CASE("an index is stored next to the file and found again", "[io][formats][jsonl]") {
  const TempDir folder;
  const std::string path = folder.write("x.jsonl", "{}\n");
  CHECK(energon::jsonl_index_path(path) == path + ".idx");
  CHECK(ensure_jsonl_indexed(path, folder.file("cache")) == path + ".idx");
  const auto built = FileSource(path + ".idx").identity();
  CHECK(ensure_jsonl_indexed(path, folder.file("cache")) == path + ".idx");
  CHECK(FileSource(path + ".idx").identity() == built);
  CHECK_FALSE(std::filesystem::exists(folder.file("cache")));
}

TEST_CASE("an index of other content is rebuilt", "[io][formats][jsonl]") {
  const TempDir folder;
  const std::string path = folder.write("x.jsonl", "{}\n {}\n");
  ensure_jsonl_indexed(path, folder.file("cache"));
  SECTION("that is longer") { folder.write("x.jsonl", "{}\n{}\n{}\n"); }
  SECTION("that is as long, but newer") {
    std::filesystem::last_write_time(path + ".idx", hours_ago(1));
    folder.write("x.jsonl", "{}\n{} \n");
  }
  SECTION("that is as long, but older, as left by cp -p and rsync") {
    folder.write("x.jsonl", "{}\n{} \n");
    std::filesystem::last_write_time(path, hours_ago(1));
  }
  ensure_jsonl_indexed(path, folder.file("cache"));
  const FileSource jsonl(path);
  CHECK(JsonlIndex::load(path + ".idx", jsonl.size()).range(1).offset == 3);
  CHECK(FileSource(path + ".idx").identity().mtime_ns == jsonl.identity().mtime_ns);
}

TEST_CASE("a file shorter than its index is an error, and the index is kept",
          "[io][formats][jsonl]") {
  const TempDir folder;
  const std::string path = folder.write("x.jsonl", "{}\n{}\n{}\n");
  const std::string index = path + ".idx";
  ensure_jsonl_indexed(path, folder.file("cache"));
  const std::string before = energon::read_file(index);
  folder.write("x.jsonl", "{}\n{}\n");
  if (GENERATE(false, true)) {  // like an index with a wrong time
    REQUIRE(energon::give_time_of(index, FileSource(path).identity()));
  }
  const auto [code, text] = error_of([&] { ensure_jsonl_indexed(path, folder.file("cache")); });
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(text,
                 "the file has 6 bytes, but its index lists 3 samples that end at byte 9: the "
                 "file was truncated after it was indexed; if that was on purpose, remove '" +
                     index + "' or run energon prepare on the file [path: " + path));
  CHECK(energon::read_file(index) == before);
  CHECK_FALSE(std::filesystem::exists(folder.file("cache")));

  // A file that is not an index proves nothing.
  folder.write("x.jsonl.idx", before.substr(8));
  ensure_jsonl_indexed(path, folder.file("cache"));
  CHECK(JsonlIndex::load(index, 6).sample_count() == 2);
}

TEST_CASE("reading returns exactly one whole line of the file", "[io][formats][jsonl]") {
  using energon::whole_line;
  CHECK(whole_line("{}\n", std::nullopt, {.offset = 0, .size = 3}, 9) == "{}");
  CHECK(whole_line("\n \n{1}\r\n\n", std::nullopt, {.offset = 0, .size = 9}, 20) == "{1}");
  CHECK(whole_line(" {2}", '\n', {.offset = 5, .size = 4}, 9) == "{2}");
  const auto refused = [](std::string_view bytes, std::optional<char> before,
                          std::uint64_t file_size) {
    const auto [code, text] = error_of(
        [&] { whole_line(bytes, before, {.offset = 5, .size = bytes.size()}, file_size); });
    CHECK(code == ErrorCode::kCorruptData);
    return text.substr(0, text.find(';'));
  };
  CHECK(refused("{}\n", '}', 20) ==
        "bytes 5 to 8 are not exactly one line of the file: they do not begin a line");
  CHECK(refused("{}", '\n', 8) ==
        "bytes 5 to 7 are not exactly one line of the file: they do not end with a line");
  CHECK(refused(std::string_view("{}\0", 3), '\n', 20).ends_with("do not end with a line"));
  CHECK(refused("{}\n{}\n", '\n', 20).ends_with("they span several lines"));
  CHECK(refused(" \n", '\n', 20).ends_with("they are blank"));
  CHECK(refused("1}\n", '\n', 20).ends_with("they are not a JSON object"));
  CHECK(refused("", '\n', 20).ends_with("do not end with a line"));
}

TEST_CASE("the index of a file in a read-only folder is stored in the cache",
          "[io][formats][jsonl][fork]") {
  const TempDir folder;
  const std::string path = folder.write("data/x.jsonl", "{}\n{}\n");
  std::filesystem::create_directory(folder.file("home"));
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  REQUIRE(::chmod(folder.file("home").c_str(), 0777) == 0);
  REQUIRE(::chmod(folder.file("data").c_str(), 0555) == 0);
  const auto result = energon::testing::run_in_child([&] {
    // The superuser may write anywhere.
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) {
      return 2;
    }
    const std::string cache = folder.file("home/cache");
    const std::string index = ensure_jsonl_indexed(path, cache);
    if (!index.starts_with(cache) || JsonlIndex::load(index, 6).sample_count() != 2) {
      return 3;
    }
    const auto built = FileSource(index).identity();
    return ensure_jsonl_indexed(path, cache) == index && FileSource(index).identity() == built ? 0
                                                                                               : 4;
  });
  CHECK(result.exit_code == 0);
  REQUIRE(::chmod(folder.file("data").c_str(), 0755) == 0);
}
