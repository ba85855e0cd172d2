#include "io/tar/archive_reader.h"

#include <catch2/catch.hpp>

#include "tests/io/tar/tar_verbs.h"
#include "tests/support/tar_builder.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test

namespace {

std::vector<WalkedMember> read_with_libarchive(std::string_view tar) {
  const TempDir folder;
  const FileSource file(folder.write("a.tar", tar));
  return all_members(ArchiveReader(file));
}

Error archive_error(std::string_view tar) {
  return error_of([&] { read_with_libarchive(tar); });
}

}  // namespace

TEST_CASE("libarchive yields each member with its place", "[io][tar]") {
  const std::string tar = TarBuilder().file("a.txt", "hello").directory("d/").end().text();
  CHECK(read_with_libarchive(tar) == std::vector<WalkedMember>{
                                         {"a.txt", MemberType::kRegular, false, 512, 5},
                                         {"d/", MemberType::kDirectory, false, 1536, 0},
                                     });
}

TEST_CASE("libarchive reports the offset of the extension header", "[io][tar]") {
  const TempDir folder;
  const FileSource file(folder.write(
      "a.tar", TarBuilder().file("a", "1").gnu_long_name("long").gnu_file("s", "2").end().text()));
  ArchiveReader reader(file);
  reader.next();
  CHECK(reader.next()->header_offset == 1024);
}

TEST_CASE("a member that libarchive would skip is an error", "[io][tar]") {
  const TarBuilder good = TarBuilder().file("a.txt", "1");
  const std::string garbage(512, 'g');
  const Error error = archive_error(TarBuilder(good).raw(garbage).file("b.txt", "2").end().text());
  CHECK(error.code() == ErrorCode::kCorruptData);
  CHECK(error.context().byte_offset == 1024);
  CHECK(error.context().path);
  CHECK(archive_error(TarBuilder(good).pax_raw("9 path=xy\n").file("b", "").end().text()).code() ==
        ErrorCode::kCorruptData);
}

TEST_CASE("truncation is an error for libarchive", "[io][tar]") {
  const std::string tar = TarBuilder().file("a.txt", std::string(50'000, 'x')).end().text();
  CHECK(archive_error(tar.substr(0, 30'000)).code() == ErrorCode::kCorruptData);
  CHECK(archive_error(tar.substr(0, 511)).code() == ErrorCode::kCorruptData);
}

TEST_CASE("a file that is not a tar is refused, compressed or not", "[io][tar]") {
  CHECK(archive_error(std::string(2000, 'x')).code() == ErrorCode::kCorruptData);
  CHECK(archive_error("\x1f\x8b\x08").code() == ErrorCode::kCorruptData);
  CHECK(archive_error("").code() == ErrorCode::kCorruptData);
}

TEST_CASE("E43: a name that the locale cannot express is not an error", "[io][tar]") {
  const std::string tar =
      TarBuilder().pax({{"path", "\xc3\xa9.txt"}}).file("s", "1").file("b", "2").end().text();
  const std::vector<WalkedMember> members = read_with_libarchive(tar);
  REQUIRE(members.size() == 2);
  CHECK(members[0].data_offset == 1536);
}
