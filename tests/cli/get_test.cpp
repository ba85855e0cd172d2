#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/tar_builder.h"

using energon::testing::kTens;
using energon::testing::run_energon;
using energon::testing::run_lines;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;

namespace {

const std::string kImage("\xFF\xD8\xFF\x00pixels\x00", 11);

void write_shards(const TempDir& folder) {
  folder.write("a.tar", TarBuilder().file("d/1.txt", "one").file("d/1.seg.png", "s").end().text());
  folder.write("b.tar", TarBuilder()
                            .file("d/2.txt", "two")
                            .file("d/3.jpg", kImage)
                            .file("d/3.txt", "three")
                            .end()
                            .text());
}

}  // namespace

TEST_CASE("get finds samples and parts of plain and of prepared shards", "[cli][get]") {
  const TempDir folder;
  write_shards(folder);
  if (GENERATE(false, true)) {
    REQUIRE(run_energon({"prepare", folder.path(), "--split-ratio", "1,1,0"}).exit_code == 0);
  }
  const auto text = run_energon({"get", folder.path(), "d/3"});
  INFO(text.err);
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, Catch::Contains("b.tar (sample 1)") && Catch::Contains("jpg: 11 bytes"));

  const auto json = nlohmann::json::parse(run_energon({"get", folder.path(), "d/3", "--json"}).out);
  CHECK(json.at("key") == "d/3");
  CHECK(json.at("shard") == "b.tar");
  CHECK(json.at("index") == 1);
  CHECK(json.at("bytes") == nlohmann::json{{"offset", 1024}, {"size", 2048}});
  CHECK(json.at("parts")[0] == nlohmann::json{{"name", "jpg"}, {"offset", 1536}, {"size", 11}});
  CHECK(json.at("parts").size() == 2);

  const std::string file = folder.file("part");
  CHECK(run_energon({"get", folder.path(), "d/3.jpg", "--output", file}).exit_code == 0);
  CHECK(energon::read_file(file) == kImage);
  CHECK(run_energon({"get", folder.path(), "d/1.seg.png", "--output", "-"}).out == "s");
  const auto whole = run_energon({"get", folder.path(), "d/3", "--output", "-"});
  CHECK(whole.exit_code == 2);
  CHECK_THAT(whole.err, Catch::Contains("KEY.part"));

  const std::string out = folder.file("out/");
  CHECK(run_energon({"get", folder.path(), "d/3", "--output", out}).exit_code == 0);
  CHECK(energon::read_file(out + "jpg") == kImage);
  CHECK(energon::read_file(out + "txt") == "three");
}

TEST_CASE("get names what exists if something does not", "[cli][get]") {
  const TempDir folder;
  write_shards(folder);
  const auto no_key = run_energon({"get", folder.path(), "d/9"});
  CHECK(no_key.exit_code == 1);
  CHECK_THAT(no_key.err, Catch::Contains("no sample has the key 'd/9'"));
  const auto no_part = run_energon({"get", folder.path(), "d/3.wav"});
  CHECK(no_part.exit_code == 1);
  CHECK_THAT(no_part.err, Catch::Contains("jpg, txt"));
  const auto no_folder =
      run_energon({"get", folder.path(), "d/3", "--output", folder.file("a.tar")});
  CHECK(no_folder.exit_code == 1);
  CHECK_THAT(no_folder.err, Catch::Contains("to write one part, ask for KEY.part"));
  CHECK(run_energon({"get", folder.path(), "--restore-key", "garbage"}).exit_code == 1);
}

TEST_CASE("part names never lead out of the output folder", "[cli][get]") {
  const TempDir folder;
  folder.write("a.tar", TarBuilder().file("k...", "x").end().text());
  const auto result = run_energon({"get", folder.path(), "k", "--output", folder.file("out")});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Catch::Contains("the name of part '..' is not a file name"));
  CHECK_FALSE(std::filesystem::exists(folder.file("out")));
}

TEST_CASE("get rebuilds the batches that run printed", "[cli][get][fork]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens, 100);
  const std::vector<std::string> flags = {"--num-workers", "2", "--world-size", "2",
                                          "--batch-size",  "3"};
  auto run_flags = flags;
  run_flags.insert(run_flags.end(), {"--rank", "1", "--limit", "5", "--shuffle-buffer-size", "9"});
  for (const std::string& line : run_lines(folder.path(), run_flags)) {
    const auto printed = nlohmann::json::parse(line);
    std::vector<std::string> words = {"get", folder.path(), "--json", "--restore-key",
                                      printed.at("restore_key").get<std::string>()};
    words.insert(words.end(), flags.begin(), flags.end());
    const auto result = run_energon(words);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    const auto rebuilt = nlohmann::json::parse(result.out);
    CHECK(rebuilt.at("digest") == printed.at("digest"));
    CHECK(rebuilt.at("keys") == printed.at("keys"));
    CHECK(rebuilt.at("restore_key") == printed.at("restore_key"));
  }
}

TEST_CASE("a damaged sample is not printed", "[cli][get]") {
  const TempDir folder;
  write_shards(folder);
  REQUIRE(
      run_energon({"prepare", folder.path(), "--split-ratio", "1,0,0", "--checksums"}).exit_code ==
      0);
  std::string shard = energon::read_file(folder.file("b.tar"));
  shard[1536] = 'X';
  folder.write("b.tar", shard);
  const auto result = run_energon({"get", folder.path(), "d/3.jpg", "--output", "-"});
  CHECK(result.exit_code == 1);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Catch::Contains("checksum"));
}
