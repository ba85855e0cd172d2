#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/file.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"

namespace fs = std::filesystem;

using energon::as_bytes;
using energon::ErrorCode;
using energon::read_file;
using energon::UniqueFd;
using energon::write_file_atomically;
using energon::testing::error_of;
using energon::testing::TempDir;

namespace {

std::int64_t entries_of(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

std::string refusal(const std::string& path) {
  return error_of([&] { write_file_atomically(path, as_bytes("x")); }, ErrorCode::kInvalidArgument);
}

}  // namespace

TEST_CASE("a link to a file is kept, and its target is replaced", "[io][output]") {
  const TempDir folder;
  const std::string real = folder.write("real/state", "old");
  fs::create_symlink("real/state", folder.file("relative"));
  fs::create_symlink(folder.file("relative"), folder.file("absolute"));
  write_file_atomically(folder.file("absolute"), as_bytes("new"));
  CHECK(read_file(real) == "new");
  CHECK(fs::is_symlink(folder.file("absolute")));
  CHECK(fs::is_symlink(folder.file("relative")));
  CHECK(entries_of(folder.path()) == 3);
  CHECK(entries_of(folder.file("real")) == 1);
}

TEST_CASE("a link to a missing file creates the file", "[io][output]") {
  const TempDir folder;
  fs::create_symlink("state", folder.file("link"));
  write_file_atomically(folder.file("link"), as_bytes("new"));
  CHECK(fs::is_symlink(folder.file("link")));
  CHECK(read_file(folder.file("state")) == "new");
}

TEST_CASE("a link in a circle is an error", "[io][output]") {
  const TempDir folder;
  fs::create_symlink("b", folder.file("a"));
  fs::create_symlink("a", folder.file("b"));
  CHECK_THAT(
      error_of([&] { write_file_atomically(folder.file("a"), as_bytes("x")); }, ErrorCode::kIo),
      Catch::Contains("cannot follow the links"));
}

TEST_CASE("devices are written to, not replaced", "[io][output]") {
  // A pseudoterminal: no file can be created in its folder, so a broken program cannot replace a
  // device of the machine, even as root.
  const UniqueFd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(master.valid());
  REQUIRE(::grantpt(master.get()) == 0);
  REQUIRE(::unlockpt(master.get()) == 0);
  const std::string device = ::ptsname(master.get());
  const UniqueFd held(
      ::open(device.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));  // otherwise the terminal hangs up
  REQUIRE(held.valid());
  const TempDir folder;
  fs::create_symlink(device, folder.file("link"));
  for (const std::string& path : {folder.file("link"), device}) {
    CAPTURE(path);
    write_file_atomically(path, as_bytes("x"));
    char byte = 0;
    REQUIRE(::read(master.get(), &byte, 1) == 1);
    CHECK(byte == 'x');
    CHECK(fs::is_character_file(device));
  }
  CHECK(fs::is_symlink(folder.file("link")));
}

TEST_CASE("a FIFO is written to if it has a reader, and refused at once if not", "[io][output]") {
  const TempDir folder;
  const std::string path = folder.file("fifo");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THAT(refusal(path), Catch::Contains("a FIFO without a reader"));
  const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  REQUIRE(reader.valid());
  write_file_atomically(path, as_bytes("through"));
  std::array<char, 16> text{};
  CHECK(::read(reader.get(), text.data(), text.size()) == 7);
  CHECK(std::string_view(text.data()) == "through");
  CHECK(fs::is_fifo(path));
}

TEST_CASE("an open file is written through its descriptor", "[io][output]") {
  const TempDir folder;
  const std::string path = folder.write("out", "longer than what comes");
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  write_file_atomically("/proc/self/fd/" + std::to_string(file.get()), as_bytes("short"));
  CHECK(read_file(path) == "short");
  struct stat opened {};
  struct stat named {};
  REQUIRE(::fstat(file.get(), &opened) == 0);
  REQUIRE(::stat(path.c_str(), &named) == 0);
  CHECK(opened.st_ino == named.st_ino);
}

TEST_CASE("folders and sockets are refused", "[io][output]") {
  const TempDir folder;
  CHECK_THAT(refusal(folder.path()), Catch::Contains("is a folder"));
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder.file("socket");
  REQUIRE(path.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  CHECK_THAT(refusal(path), Catch::Contains("is a socket"));
  CHECK(fs::is_socket(path));
}
