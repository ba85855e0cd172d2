#include <sys/stat.h>

#include <array>
#include <atomic>
#include <filesystem>

#include <catch2/catch.hpp>

#include "io/dataset/dataset_folder.h"
#include "io/error.h"
#include "io/file.h"
#include "io/lint/lint.h"
#include "io/recipe/recipe.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::Error;
using energon::ErrorCode;
using energon::FileSource;
using energon::testing::TempDir;

namespace {

ErrorCode code_of_opening(const std::string& path) {
  try {
    FileSource source(path);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

}  // namespace

TEST_CASE("a path with a NUL byte is refused, not truncated there", "[io][file_source]") {
  const TempDir folder;
  const std::string path = folder.write("a", "0123456789") + std::string("\0b", 2);
  CHECK(code_of_opening(path) == ErrorCode::kInvalidArgument);
  CHECK_THROWS_WITH(energon::load_recipe(path, "train"), Catch::Contains("NUL byte"));
  CHECK_THROWS_WITH(energon::write_file_atomically(path, {}), Catch::Contains("a\\x00b"));
}

TEST_CASE("a file is read at any position", "[io][file_source]") {
  const TempDir folder;
  const FileSource source(folder.write("a", "0123456789"));
  std::array<char, 4> out{};
  source.read_at(3, std::as_writable_bytes(std::span(out)));
  CHECK(std::string_view(out.data(), out.size()) == "3456");
  CHECK(source.size() == 10);
}

TEST_CASE("a path with a NUL byte is refused, not truncated", "[io][file_source]") {
  const TempDir folder;
  folder.write("a", "0123456789");
  folder.write("d.tar", "");
  const std::string cut("\0b", 2);
  const auto code = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Catch::Contains("NUL byte") && Catch::Contains("\\x00b"));
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  const std::string file = folder.file("a") + cut;
  const std::string data = folder.path() + cut;
  CHECK(code([&] { FileSource source(file); }) == ErrorCode::kInvalidArgument);
  CHECK(code([&] { energon::write_file_atomically(file, {}); }) == ErrorCode::kInvalidArgument);
  CHECK(code([&] { energon::check_output(file); }) == ErrorCode::kInvalidArgument);
  CHECK(code([&] { energon::open_split(data); }) == ErrorCode::kInvalidArgument);
  CHECK(code([&] { energon::open_split(std::vector<std::string>{file + ".tar"}); }) ==
        ErrorCode::kInvalidArgument);
  CHECK(code([&] { energon::load_recipe(data, "train"); }) == ErrorCode::kInvalidArgument);
  CHECK(code([&] { energon::lint(data); }) == ErrorCode::kInvalidArgument);
  CHECK(code([&] { energon::testing::prepare_folder(data); }) == ErrorCode::kInvalidArgument);
  CHECK(energon::read_file(folder.file("a")) == "0123456789");
}

TEST_CASE("a read past the end is an error with the end of the file", "[io][file_source]") {
  const TempDir folder;
  const FileSource source(folder.write("a", "0123456789"));
  std::array<std::byte, 4> out{};
  try {
    source.read_at(8, out);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kCorruptData);
    CHECK(error.context().byte_offset == 10);
  }
}

TEST_CASE("a read in parts fails like the whole read", "[io][file_source]") {
  const TempDir folder;
  const FileSource source(folder.write("a", "0123456789"));
  std::array<std::byte, 9> out{};
  const auto error_of = [](const auto& reading) -> std::string {
    try {
      reading();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string whole = error_of([&] { source.read_at(4, out); });
  CHECK_THAT(whole, Catch::Contains("file ends at byte 10, but expected 9 bytes at offset 4"));
  source.read_part_at({4, 9}, 4, std::span(out).first(5));
  CHECK(static_cast<char>(out[4]) == '8');
  CHECK(error_of([&] { source.read_part_at({4, 9}, 9, std::span(out).subspan(5)); }) == whole);
}

TEST_CASE("anything but a regular file is refused at once", "[io][file_source]") {
  const TempDir folder;
  CHECK(code_of_opening(folder.file("absent")) == ErrorCode::kNotFound);
  CHECK(code_of_opening(folder.path()) == ErrorCode::kInvalidArgument);
  REQUIRE(::mkfifo(folder.file("fifo").c_str(), 0600) == 0);
  CHECK(code_of_opening(folder.file("fifo")) == ErrorCode::kInvalidArgument);
  CHECK(code_of_opening("/dev/zero") == ErrorCode::kInvalidArgument);
}

TEST_CASE("a file is replaced atomically and leaves no temporary file", "[io][file_source]") {
  const TempDir folder;
  const std::string path = folder.write("state", "old");
  energon::write_file_atomically(path, energon::as_bytes("new content"));
  CHECK(energon::read_file(path) == "new content");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("bytes read are counted where another process can see them", "[io][file_source]") {
  const TempDir folder;
  const std::size_t size = (std::size_t{20} << 20) + 3;  // more than one read
  const FileSource source(folder.write("a", std::string(size, 'x')));
  static std::atomic<std::uint64_t> counter{0};  // valid until the process ends
  energon::count_reads_in(counter);
  std::string out(size, ' ');
  source.read_at(0, std::as_writable_bytes(std::span(out)));
  CHECK(counter == size);
  CHECK(out == std::string(size, 'x'));
  source.read_at(7, std::as_writable_bytes(std::span(out)).first(2));
  CHECK(counter == size + 2);
}
