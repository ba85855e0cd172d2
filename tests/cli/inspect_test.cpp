#include <string>

#include <catch2/catch.hpp>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/tar_builder.h"

using energon::testing::kTens;
using energon::testing::run_energon;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;

TEST_CASE("info describes plain tars and prepared datasets", "[cli][info]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const auto plain = run_energon({"info", folder.path()});
  CHECK(plain.exit_code == 0);
  CHECK_THAT(plain.out, Catch::Contains("samples:   55\n") && Catch::Contains("shards:    6\n") &&
                            Catch::Contains("plain tars"));

  REQUIRE(
      run_energon({"prepare", folder.path(), "--split-ratio", "4,2,0", "--checksums"}).exit_code ==
      0);
  folder.write(".nv-meta/split.yaml",
               "split_parts:\n  train:\n  - shard-00{0..3}.tar\n  val:\n  - shard-00{4..5}.tar\n"
               "exclude:\n- shard-001.tar\n- shard-004.tar/000042\n");
  const auto prepared = run_energon({"info", folder.path()});
  INFO(prepared.err);
  CHECK(prepared.exit_code == 0);
  CHECK_THAT(prepared.out,
             Catch::Contains("samples:   55\n") && Catch::Contains("energon-cpp") &&
                 Catch::Contains("checksums: yes") &&
                 Catch::Contains("train: 54.5%, 30 samples in 3 shards") &&
                 Catch::Contains("val: 27.3%, 15 samples in 2 shards (1 sample excluded)") &&
                 Catch::Contains("excluded:\n  shard-001.tar\n"));
}

TEST_CASE("info and get use the split file that dataset.yaml names", "[cli][info][get]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  REQUIRE(run_energon({"prepare", folder.path(), "--split-ratio", "1,0,0"}).exit_code == 0);
  folder.write(".nv-meta/small.yaml", "split_parts: {train: [shard-005.tar]}");
  folder.write(".nv-meta/dataset.yaml", "split_config: small.yaml");
  const auto small = run_energon({"info", folder.path()});
  CHECK_THAT(small.out, Catch::Contains("splits by small.yaml:\n  train: 9.09%, 5 samples in 1"));
  CHECK(small.err.empty());
  const auto usual = run_energon({"info", folder.path(), "--split-config", "split.yaml"});
  CHECK_THAT(usual.out, Catch::Contains("train: 100%, 55 samples"));
  CHECK_THAT(usual.err, Catch::Contains("loaders use the split file 'small.yaml'"));

  CHECK(run_energon({"get", folder.path(), "000052", "--split", "train"}).exit_code == 0);
  const auto outside = run_energon({"get", folder.path(), "000001", "--split", "train"});
  CHECK(outside.exit_code == 1);
  CHECK_THAT(outside.err, Catch::Contains("not in the split part 'train'"));
}

TEST_CASE("info accepts a tar and a brace pattern", "[cli][info]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  CHECK_THAT(run_energon({"info", folder.file("shard-005.tar")}).out,
             Catch::Contains("samples:   5\n"));
  CHECK_THAT(run_energon({"info", folder.file("shard-{000..001}.tar")}).out,
             Catch::Contains("samples:   20\n"));
}

TEST_CASE("lint finds nothing in good data and every fault in bad data", "[cli][lint]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  REQUIRE(
      run_energon({"prepare", folder.path(), "--split-ratio", "1,0,0", "--checksums"}).exit_code ==
      0);
  const auto good = run_energon({"lint", folder.path()});
  CHECK(good.exit_code == 0);
  CHECK_THAT(good.out, Catch::Contains("55 samples in 6 shards") && Catch::Contains("no problems"));

  for (const char* const name : {"shard-001.tar", "shard-003.tar"}) {
    std::string shard = energon::read_file(folder.file(name));
    shard[4 * 1024 + 512] ^= 1;  // a payload byte of the fifth sample
    folder.write(name, shard);
  }
  const auto bad = run_energon({"lint", folder.path()});
  CHECK(bad.exit_code == 1);
  CHECK_THAT(bad.out, Catch::Contains("shard-001.tar: byte 4096") &&
                          Catch::Contains("shard-003.tar: byte 4096") &&
                          Catch::Contains("2 problems"));

  const TempDir empty;
  empty.write("a.tar", TarBuilder().end().text());
  const auto nothing = run_energon({"lint", empty.path()});
  CHECK(nothing.exit_code == 1);
  CHECK_THAT(nothing.out, Catch::Contains("a.tar: has no samples"));
}

TEST_CASE("preview shows samples as text", "[cli][preview]") {
  const TempDir folder;
  std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x40\0\0\0\xF0", 24);
  folder.write("a.tar", TarBuilder()
                            .file("1.txt", "a caption")
                            .file("1.json", R"({"n": 1})")
                            .file("1.png", png)
                            .file("2.bin", std::string("\0\1\2", 3))
                            .file("3.txt", "\x1b[31mred")
                            .end()
                            .text());
  const auto result = run_energon({"preview", folder.path(), "--count", "3"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("txt: 9 bytes, text a caption") &&
                             Catch::Contains("\"n\": 1") &&
                             Catch::Contains("PNG image, 320 x 240") &&
                             Catch::Contains("bin: 3 bytes, binary"));
  CHECK(result.out.find('\x1b') == std::string::npos);
  CHECK_THAT(run_energon({"preview", folder.path(), "--count", "1"}).out, !Catch::Contains("bin"));
}

TEST_CASE("preview shows multiple lines and other alphabets as text", "[cli][preview]") {
  const TempDir folder;
  std::string chinese;
  while (chinese.size() < 2000) {
    chinese += "\u4e16\u754c";  // a cut after 200 bytes is within a character
  }
  folder.write("a.tar", TarBuilder()
                            .file("1.txt", "first line\nsecond\tline\r\n")
                            .file("1.path", "C:\\x00\\file")
                            .file("1.long", chinese)
                            .file("1.bin", std::string("line\n\0\xff", 7))
                            .file("1.raw", std::string(300, '\x80'))
                            .end()
                            .text());
  const auto result = run_energon({"preview", folder.path()});
  CHECK_THAT(result.out, Catch::Contains("text\n      first line\n      second\\x09line\\x0d") &&
                             Catch::Contains("path: 11 bytes, text") &&
                             Catch::Contains("long: 2,004 bytes, text") &&
                             Catch::Contains("bin: 7 bytes, binary") &&
                             Catch::Contains("raw: 300 bytes, binary"));
}

TEST_CASE("commands accept a list of tars", "[cli][info]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const std::vector<std::string> tars = {folder.file("shard-004.tar"), folder.file("shard-001.tar"),
                                         folder.file("shard-002.tar")};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& flags) {
    words.insert(words.end(), tars.begin(), tars.end());
    words.insert(words.end(), flags.begin(), flags.end());
    const auto result = run_energon(words);
    INFO(result.err);
    CHECK(result.exit_code == 0);
    return result.out;
  };
  CHECK_THAT(with({"info"}, {}), Catch::Contains("samples:   30\n"));
  CHECK_THAT(with({"lint"}, {}), Catch::Contains("30 samples in 3 shards"));
  const auto order = energon::testing::json_lines(with({"run"}, {"--mode", "val"}));
  REQUIRE(order.size() == 30);
  CHECK(order.front().at("keys").at(0) == "000040");
  CHECK(order.back().at("keys").at(0) == "000029");
  const auto folders = run_energon({"info", folder.path(), tars[0]});
  CHECK(folders.exit_code == 2);
  CHECK_THAT(folders.err, Catch::Contains("each must be a tar"));
}
