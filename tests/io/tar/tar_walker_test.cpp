#include "io/tar/tar_walker.h"

#include <algorithm>
#include <utility>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/io/tar/tar_verbs.h"
#include "tests/support/tar_builder.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test

namespace {

using Names = std::vector<std::string>;

Error walk_error(const TarBuilder& tar) {
  return error_of([&] { walk(tar.text()); });
}

}  // namespace

TEST_CASE("the walker yields each member with its place", "[io][tar]") {
  const std::string tar = TarBuilder().file("a.txt", "hello").directory("d/").end().text();
  CHECK(walk(tar) == std::vector<WalkedMember>{
                         {"a.txt", MemberType::kRegular, false, 512, 5},
                         {"d/", MemberType::kDirectory, false, 1536, 0},
                     });
}

TEST_CASE("the walker returns a member's bytes", "[io][tar]") {
  const std::string tar = TarBuilder().file("a.txt", "hello").end().text();
  TarWalker walker(as_bytes(tar));
  CHECK(as_text(walker.data(walker.next().value())) == "hello");
}

TEST_CASE("offsets count from the base offset", "[io][tar]") {
  const std::string tar = TarBuilder().file("a.txt", "hello").text();
  TarWalker walker(as_bytes(tar), 4096);
  const TarMember member = walker.next().value();
  CHECK(member.header_offset == 4096);
  CHECK(member.data_offset == 4608);
  CHECK(as_text(walker.data(member)) == "hello");
  CHECK_FALSE(walker.next());
  CHECK(walker.offset() == 5120);
}

TEST_CASE("a range may end at a member's end, but no member may extend past it", "[io][tar]") {
  const std::string tar = TarBuilder().file("a.txt", "hello").file("b.txt", "world").text();
  TarWalker whole(as_bytes(tar));
  CHECK(names_of(whole) == Names{"a.txt", "b.txt"});
  CHECK_FALSE(whole.met_zero_block());
  for (const std::size_t size : {1, 511, 512, 513, 1023, 1025, 1535, 2047}) {
    CAPTURE(size);
    CHECK(error_of([&] { walk(tar.substr(0, size)); }).code() == ErrorCode::kCorruptData);
  }
  CHECK(walk("").empty());
}

TEST_CASE("the end of a walk is sticky", "[io][tar]") {
  const std::string tar = TarBuilder().file("a.txt", "hello").end().text();
  TarWalker walker(as_bytes(tar), 0, ZeroBlock::kEndsArchive);
  CHECK(names_of(walker) == Names{"a.txt"});
  CHECK(walker.met_zero_block());
  CHECK(walker.offset() == 1024);
  CHECK_FALSE(walker.next());
  CHECK(walker.offset() == 1024);
}

TEST_CASE("an error of a walk repeats", "[io][tar]") {
  // The second call must not take the member without its pax path.
  const std::string tar =
      TarBuilder().pax({{"path", "long.txt"}}).header({.name = "s.txt", .size = 9}).text();
  TarWalker walker(as_bytes(tar));
  const std::string first = error_of([&] { walker.next(); }).what();
  CHECK(error_of([&] { walker.next(); }).what() == first);
}

TEST_CASE("data after a zero block in memory is an error", "[io][tar]") {
  const Error error = walk_error(TarBuilder().file("a", "1").zero_blocks(1).file("b", "2"));
  CHECK(error.context().byte_offset == 1536);
}

TEST_CASE("a zeroed header inside a sample's range is damage, wherever it is", "[io][tar]") {
  const std::string tar = TarBuilder()
                              .file("a.cls", "7")
                              .file("a.jpg", std::string(1000, 'j'))
                              .file("a.txt", "hello")
                              .text();
  // Headers of the three members. Zeros everything from the header on, or only its member.
  for (const auto& [header, next] : {std::pair(0, 1024), {1024, 2560}, {2560, 3584}}) {
    CAPTURE(header);
    for (const int end : {header + 512, next, 3584}) {
      std::string damaged = tar;
      std::fill(damaged.begin() + header, damaged.begin() + end, '\0');
      TarWalker walker(as_bytes(damaged), 8192);
      const Error error = error_of([&] { all_members(walker); });
      CHECK(error.code() == ErrorCode::kCorruptData);
      CHECK(error.context().byte_offset == 8192 + static_cast<std::uint64_t>(header));
    }
  }
  // The zero blocks at an archive's end are not part of its last sample.
  const Error error =
      error_of([&] { names_of(TarWalker(as_bytes(tar + std::string(512, '\0')))); });
  CHECK(error.context().byte_offset == 3584);
}

TEST_CASE("a range of a file can be walked alone", "[io][tar]") {
  const TempDir folder;
  const FileSource file(folder.write(
      "a.tar", TarBuilder().file("a", "1").file("b", "2").file("c", "3").end().text()));
  TarFileWalker walker(file, 1024, 2048);
  CHECK(names_of(walker) == Names{"b"});
  CHECK(walker.offset() == 2048);
}

TEST_CASE("long names of every dialect are read", "[io][tar]") {
  const std::string name(300, 'n');
  const std::string prefix(155, 'p');
  CHECK(names_of(TarWalker(as_bytes(TarBuilder().gnu_long_name(name).gnu_file("x", "").text()))) ==
        Names{name});
  CHECK(names_of(TarWalker(as_bytes(TarBuilder().pax({{"path", name}}).file("x", "").text()))) ==
        Names{name});
  CHECK(names_of(
            TarWalker(as_bytes(TarBuilder().header({.name = "n.txt", .prefix = prefix}).text()))) ==
        Names{prefix + "/n.txt"});
}

TEST_CASE("a member starts at its extension header", "[io][tar]") {
  const TarBuilder tar = TarBuilder()
                             .file("a", "1")
                             .pax({{"path", "long.txt"}})
                             .file("s", "2")
                             .gnu_long_link("target")
                             .gnu_long_name("name")
                             .symbolic_link("l", "t");
  TarWalker walker(as_bytes(tar.text()));
  CHECK(walker.next()->header_offset == 0);
  const TarMember second = walker.next().value();
  CHECK(second.header_offset == 1024);
  CHECK(second.data_offset == 1024 + 3 * 512);
  const TarMember third = walker.next().value();
  CHECK(third.header_offset == 3072);
  CHECK(third.name == "name");
}

TEST_CASE("global headers and volume labels are not part of a member", "[io][tar]") {
  const TarBuilder tar = TarBuilder()
                             .header({.name = "label", .type = 'V', .magic = kGnuMagic})
                             .pax_global({{"comment", "by git"}})
                             .file("a.txt", "1");
  TarWalker walker(as_bytes(tar.text()));
  CHECK(walker.next()->header_offset == 1536);
  CHECK_FALSE(walker.next());
}

TEST_CASE("a pax header applies to one member only", "[io][tar]") {
  const std::string tar = TarBuilder()
                              .pax({{"path", "long.txt"}, {"size", "5"}})
                              .file("s", "hello")
                              .file("b", "x")
                              .text();
  CHECK(walk(tar) == std::vector<WalkedMember>{
                         {"long.txt", MemberType::kRegular, false, 1536, 5},
                         {"b", MemberType::kRegular, false, 2560, 1},
                     });
}

TEST_CASE("the last of two equal pax records wins", "[io][tar]") {
  CHECK(names_of(TarWalker(as_bytes(
            TarBuilder().pax({{"path", "1"}, {"path", "2"}}).file("s", "").text()))) == Names{"2"});
}

TEST_CASE("extension headers that contradict each other are refused", "[io][tar]") {
  const auto tar = GENERATE(values<TarBuilder>(
      {TarBuilder().pax({{"path", "a"}}).pax({{"path", "b"}}).file("s", ""),
       TarBuilder().gnu_long_name("a").gnu_long_name("b").file("s", ""),
       TarBuilder().gnu_long_link("a").gnu_long_link("b").file("s", ""),
       TarBuilder().gnu_long_name("a").pax({{"path", "b"}}).file("s", ""),
       TarBuilder().pax({{"path", "b"}}).gnu_long_name("a").file("s", ""),
       TarBuilder().pax({{"path", "b"}}).pax_global({{"comment", "x"}}).file("s", ""),
       TarBuilder().pax({{"path", "b"}}).end(), TarBuilder().gnu_long_name("b"),
       TarBuilder().pax({{"size", "5"}}).directory("d/"),
       TarBuilder().header({.name = "d/", .size = 5}).data("12345"),
       TarBuilder().header({.name = "label", .size = 5, .type = 'V'}).data("12345")}));
  CHECK(walk_error(tar).code() == ErrorCode::kCorruptData);
}

TEST_CASE("malformed pax records are refused", "[io][tar]") {
  const auto body = GENERATE(
      values<std::string>({"path=x\n", "9 path=xy\n", "12 path=xy\n", "99 path=xy\n", "11 path=xy ",
                           "0 path=xy\n", "-1 path=x\n", " 11 path=xy\n", "8 pathx\n", "5 =x\n",
                           "2 \n", "1\n", "99999999999999999999999 path=x\n", "11 path=xy\nrest"}));
  CAPTURE(body);
  CHECK(walk_error(TarBuilder().pax_raw(body).file("s.txt", "")).code() == ErrorCode::kCorruptData);
}

TEST_CASE("an error in a pax record names the record's byte", "[io][tar]") {
  const Error error = walk_error(TarBuilder().pax({{"mtime", "1"}, {"size", "x"}}).file("s", ""));
  CHECK(error.context().byte_offset == 512 + pax_record("mtime", "1").size());
}

TEST_CASE("members without data may state a size", "[io][tar]") {
  const auto type = GENERATE('2', '3', '4', '5', '6');
  const std::string tar =
      TarBuilder().header({.name = "x", .size = 5, .type = type}).file("a", "1").text();
  CHECK(names_of(TarWalker(as_bytes(tar))) == Names{"x", "a"});
}

TEST_CASE("continuations of multi-volume archives are not supported", "[io][tar]") {
  const auto type = GENERATE('M', 'N');
  CHECK(walk_error(TarBuilder().header({.name = "x", .type = type})).code() ==
        ErrorCode::kUnsupported);
}

TEST_CASE("sparse members are marked and skipped", "[io][tar]") {
  const std::string tar = TarBuilder()
                              .gnu_sparse_file("s.bin")
                              .pax({{"GNU.sparse.major", "1"}, {"GNU.sparse.name", "real.bin"}})
                              .file("GNUSparseFile.0/real.bin", "x")
                              .file("a", "1")
                              .text();
  CHECK(walk(tar) == std::vector<WalkedMember>{
                         {"s.bin", MemberType::kRegular, true, 512, 1024},
                         {"real.bin", MemberType::kRegular, true, 3072, 1},
                         {"a", MemberType::kRegular, false, 4096, 1},
                     });
}

TEST_CASE("the file walker yields the same members as the one in memory", "[io][tar]") {
  TarBuilder builder;
  for (int i = 0; i < 200; ++i) {
    builder.gnu_long_name(fmt::format("sample{}.txt", i))
        .file("s", std::string(static_cast<std::size_t>(i * i * 7), 'x'));
  }
  builder.end();
  const TempDir folder;
  const FileSource file(folder.write("a.tar", builder.text()));
  TarFileWalker walker(file);
  CHECK(all_members(walker) == walk(builder.text()));
  CHECK(walker.offset() == builder.size() - 1024);
}
