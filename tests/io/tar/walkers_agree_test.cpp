// libarchive and our walkers must see the same members; with two interpretations, an index and a
// loader could disagree about a shard.

#include <filesystem>
#include <functional>
#include <random>

#include <catch2/catch.hpp>

#include "tests/io/tar/tar_verbs.h"
#include "tests/support/shared_data.h"
#include "tests/support/tar_builder.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test

namespace {

using Members = std::optional<std::vector<WalkedMember>>;  // nullopt means refused

Members members_or_refusal(const std::function<std::vector<WalkedMember>()>& read) {
  try {
    return read();
  } catch (const Error&) {
    return std::nullopt;
  }
}

// libarchive reports the logical size of sparse members, and does not always mark them as sparse.
Members without_sparse_sizes(Members theirs, const Members& ours) {
  for (std::size_t i = 0; theirs && ours && i < std::min(theirs->size(), ours->size()); ++i) {
    if ((*ours)[i].sparse) {
      (*theirs)[i].sparse = true;
      (*theirs)[i].size = (*ours)[i].size;
    }
  }
  return theirs;
}

struct Outcome {
  Members ours;
  Members theirs;
};

Outcome read_both_ways(const std::string& path) {
  const FileSource file(path);
  Outcome result;
  result.ours = members_or_refusal([&] { return all_members(TarFileWalker(file)); });
  result.theirs = without_sparse_sizes(
      members_or_refusal([&] { return all_members(ArchiveReader(file)); }), result.ours);
  return result;
}

Outcome read_both_ways(const TarBuilder& tar) {
  const TempDir folder;
  return read_both_ways(folder.write("a.tar", tar.text()));
}

TarBuilder two_files() { return TarBuilder().file("a.txt", "hello").file("a.cls", "7"); }

}  // namespace

TEST_CASE("walker and libarchive agree on archives made by others", "[io][tar]") {
  const auto folder = shared_data("tar");
  const auto shards = shared_data("webdataset");
  if (!folder || !shards) {
    return skipped();
  }
  std::size_t count = 0;
  for (const std::string& root : {*folder, *shards}) {
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      if (entry.path().extension() == ".tar") {
        CAPTURE(entry.path().string());
        const Outcome outcome = read_both_ways(entry.path().string());
        REQUIRE(outcome.ours.has_value());
        CHECK(outcome.ours == outcome.theirs);
        const std::string bytes = read_file(entry.path().string());
        CHECK(walk(bytes) == *outcome.ours);
        ++count;
      }
    }
  }
  CHECK(count >= 20);
}

TEST_CASE("walker and libarchive agree on good archives of every kind", "[io][tar]") {
  const std::string long_name(300, 'n');
  const auto tar = GENERATE_COPY(values<TarBuilder>(
      {two_files().end(),
       two_files(),
       two_files().zero_blocks(1),
       TarBuilder().end(),
       two_files().directory("d/").symbolic_link("l", "t").hard_link("h", "a.txt").fifo("f").end(),
       TarBuilder().v7_file("a.txt", "1").gnu_file("b.txt", "2").end(),
       TarBuilder().gnu_long_name(long_name).gnu_long_link(long_name).symbolic_link("s", "t").end(),
       TarBuilder().gnu_long_name(long_name).gnu_file("s", "1").file("b", "2").end(),
       TarBuilder().pax({{"path", long_name}, {"size", "5"}}).file("s", "hello").end(),
       TarBuilder().pax({{"size", "5"}}).header({.name = "s"}).data("hello").end(),
       TarBuilder().header({.name = "n", .prefix = std::string(155, 'p')}).file("b", "").end(),
       TarBuilder()
           .header({.name = "b", .size_field = base256(5)})
           .data("hello")
           .file("c", "")
           .end(),
       TarBuilder().header({.name = "q", .size = 5, .type = 'Q'}).data("hello").file("c", "").end(),
       TarBuilder().header({.name = "q", .size = 5, .type = '7'}).data("hello").file("c", "").end(),
       TarBuilder().header({.name = "d", .size = 5, .type = '5'}).file("c", "").end(),
       TarBuilder().header({.name = "d", .size = 5, .type = '6'}).file("c", "").end(),
       TarBuilder().header({.name = "d", .size = 5, .type = '3'}).file("c", "").end(),
       TarBuilder().header({.name = "d", .size = 5, .type = '2', .link = "x"}).file("c", "").end(),
       TarBuilder().header({.name = "old/", .type = '\0', .magic = kV7Magic}).file("c", "").end(),
       TarBuilder().pax_global({{"comment", "x"}}).file("c", "1").end(),
       TarBuilder().header({.name = "label", .type = 'V', .magic = kGnuMagic}).file("c", "1").end(),
       TarBuilder().gnu_sparse_file("s.bin").file("c", "1").end()}));
  const Outcome outcome = read_both_ways(tar);
  REQUIRE(outcome.ours.has_value());
  CHECK(outcome.ours == outcome.theirs);
}

TEST_CASE("walker and libarchive both refuse broken archives", "[io][tar]") {
  const std::string good = two_files().end().text();
  const auto tar = GENERATE_COPY(values<TarBuilder>(
      {two_files().header({.name = "b", .checksum_field = "000001"}).end(),
       two_files().raw(std::string(512, 'g')).end(), TarBuilder().raw(good.substr(0, 1500)),
       TarBuilder().raw(good.substr(0, 1100)), TarBuilder().raw(std::string(1000, 'x')),
       two_files().header({.name = "b", .size_field = base256(-5)}).end(),
       two_files().pax({{"size", "-5"}}).file("b", "").end(),
       two_files().pax_raw("9 path=xy\n").file("b", "").end(),
       two_files().header({.name = "x", .size = 1 << 30, .type = 'L', .magic = kGnuMagic}).end()}));
  const Outcome outcome = read_both_ways(tar);
  CHECK_FALSE(outcome.ours.has_value());
  CHECK_FALSE(outcome.theirs.has_value());
}

TEST_CASE("the walker refuses what libarchive and other readers interpret differently",
          "[io][tar]") {
  using std::string_view_literals::operator""sv;
  const auto tar = GENERATE(values<TarBuilder>(
      {two_files().pax({{"path", "ev\0il.txt"sv}}).file("b", "").end(),
       two_files().pax({{"path", ""}}).file("b", "").end(),
       two_files().pax_global({{"path", "x"}}).file("b", "").end(),
       two_files().header({.name = "h", .size = 5, .type = '1', .link = "a.txt"}).end(),
       two_files().gnu_long_name("x").pax({{"path", "y"}}).file("b", "").end(),
       two_files().pax({{"path", "x"}}).pax({{"path", "y"}}).file("b", "").end()}));
  const Outcome outcome = read_both_ways(tar);
  CHECK_FALSE(outcome.ours.has_value());
}

TEST_CASE("libarchive reads plain archives like the walker", "[io][tar]") {
  const std::string good = TarBuilder()
                               .directory("d/")
                               .file("d/a.txt", "hello")
                               .gnu_file("d/b.json", "{}")
                               .header({.name = "c.txt", .size = 3, .prefix = "e/f"})
                               .data("abc")
                               .file("g.txt", "")
                               .end()
                               .text();
  const std::vector<std::size_t> headers = {0, 512, 1536, 2560, 3584};
  const TempDir folder;
  const std::string path = folder.file("mutant.tar");
  std::mt19937 random(11);
  int plain = 0;
  int wrong = 0;
  for (int round = 0; round < 6'000; ++round) {
    std::string tar = good;
    const std::size_t header = headers[random() % headers.size()];
    for (std::uint32_t change = 0; change <= random() % 2; ++change) {
      constexpr std::string_view kLikely("\0 0157/\x80\xff.", 10);
      const bool is_likely = random() % 2 == 0;
      tar[header + random() % 512] =
          is_likely ? kLikely[random() % kLikely.size()] : static_cast<char>(random());
    }
    tar.replace(header, 512, with_checksum(tar.substr(header, 512)));
    folder.write("mutant.tar", tar);
    const FileSource file(path);
    TarFileWalker walker(file);
    const Members ours = members_or_refusal([&] { return all_members(walker); });
    if (!ours || !walker.is_plain()) {
      continue;
    }
    ++plain;
    const Members theirs = members_or_refusal([&] { return all_members(ArchiveReader(file)); });
    // Only other fields of the first header can make libarchive reject the archive, so a scan
    // checks them with it.
    const bool is_refused_at_once = !theirs && header == 0;
    wrong += theirs == ours || is_refused_at_once ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(plain > 2'000);
  CHECK(plain < 5'900);
}

TEST_CASE("a scan without libarchive has the same result as one with it", "[io][tar]") {
  // The same members; the second archive has an additional one that is not plain.
  const TarBuilder plain = two_files().file("b.txt", "x").directory("d/").file("d/c.txt", "");
  ShardScan alone = scan(TarBuilder(plain).end().text());
  const ShardScan both = scan(TarBuilder(plain).symbolic_link("l", "t").end().text());
  CHECK(both.skipped.symbolic_links == 1);
  CHECK(both.samples.back().size == alone.samples.back().size + 512);
  alone.samples.back().size += 512;
  CHECK(alone.samples == both.samples);
}
