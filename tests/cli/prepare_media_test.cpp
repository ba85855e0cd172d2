#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/index/sample_index.h"
#include "io/store/file_store.h"
#include "tests/cli/energon_program.h"
#include "tests/support/tar_builder.h"

using energon::FolderFileStore;
using energon::SampleIndex;
using energon::testing::json_lines;
using energon::testing::operator+;
using energon::testing::run_energon;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using energon::testing::Words;

namespace {

// A GIF of this size: its header, a palette of two colors and the start of an image.
std::string gif(int width, int height) {
  const auto number = [](int value) {
    return std::string{static_cast<char>(value & 0xFF), static_cast<char>(value >> 8)};
  };
  return "GIF89a" + number(width) + number(height) + std::string("\x80\0\0\0\0\0\xFF\0\0", 9) +
         "," + number(0) + number(0) + number(width) + number(height) + std::string(1, '\0');
}

// Samples 0 to 9. Sample i has a GIF that is 100 * i + 10 wide; that of sample 0 is damaged.
void write_gifs(const TempDir& folder) {
  TarBuilder tar;
  for (int i = 0; i < 10; ++i) {
    tar.file(fmt::format("{}.gif", i), i == 0 ? "GIF89a" : gif(100 * i + 10, 50));
    tar.file(fmt::format("{}.txt", i), "text");
  }
  folder.write("d/a.tar", tar.end().text());
}

const Words kPrepare = {"--split-ratio", "1,0,0", "--no-progress"};

bool has_media(const TempDir& folder) {
  return SampleIndex(folder.file("d/.nv-meta/index.sqlite")).has_media();
}

}  // namespace

TEST_CASE("prepare stores media metadata", "[cli][prepare][media]") {
  const TempDir folder;
  write_gifs(folder);
  const auto result = run_energon(Words{"prepare", folder.file("d")} + kPrepare +
                                  Words{"--media-metadata-by-extension"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("Prepared 10 samples") &&
                             Catch::Contains("Stored media metadata of 9 parts: 9 images, 0 of "
                                             "sound or video") &&
                             Catch::EndsWith("Done\n"));
  CHECK_THAT(result.err, Catch::Contains("warning: a.tar: no metadata for '0.gif': the GIF"));
  CHECK(SampleIndex(folder.file("d/.nv-meta/index.sqlite")).media_metadata("3.gif")->width == 310);
}

TEST_CASE("prepare-media adds to a prepared dataset", "[cli][prepare][media]") {
  const TempDir folder;
  write_gifs(folder);
  const std::string path = folder.file("d");
  const Words command = {"prepare-media", path, "--no-progress"};
  const auto early = run_energon(command + Words{"--media-metadata-by-header"});
  CHECK(early.exit_code == 1);
  CHECK_THAT(early.err, Catch::Contains("run: energon prepare " + path));
  REQUIRE(run_energon(Words{"prepare", path} + kPrepare).exit_code == 0);
  const auto result = run_energon(command + Words{"--media-metadata-by-glob", "[1-3].*,4.gif"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::StartsWith("Stored media metadata of 4 parts: 4 images"));
  CHECK(result.err.empty());
  const auto more =
      run_energon(command + Words{"--media-metadata-by-header", "--update", "--json"});
  CHECK(more.exit_code == 0);
  const auto json = nlohmann::json::parse(more.out);
  CHECK(json["kept"] == 4);
  CHECK(json["images"] == 5);
  CHECK(json["unreadable"] == 1);
  CHECK(json["not_read"][0]["name"] == "0.gif");
}

TEST_CASE("get shows the media metadata of a sample", "[cli][get][media]") {
  const TempDir folder;
  write_gifs(folder);
  const std::string path = folder.file("d");
  REQUIRE(run_energon(Words{"prepare", path} + kPrepare + Words{"--media-metadata-by-extension"})
              .exit_code == 0);
  const auto text = run_energon({"get", path, "3"});
  CHECK_THAT(text.out, Catch::Contains(R"({"width":310,"height":)"));
  const auto json = nlohmann::json::parse(run_energon({"get", path, "3", "--json"}).out);
  CHECK(json["parts"][0]["media"]["width"] == 310);
  const auto none = nlohmann::json::parse(run_energon({"get", path, "0", "--json"}).out);
  CHECK_FALSE(none["parts"][0].contains("media"));
}

TEST_CASE("a filter that finds no media is an error", "[cli][prepare][media]") {
  const TempDir folder;
  write_gifs(folder);
  const auto result = run_energon(Words{"prepare", folder.file("d")} + kPrepare +
                                  Words{"--media-metadata-by-glob", "*.jpg"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err,
             Catch::Contains("no part matches *.jpg: the parts are gif, txt; nothing was stored"));
  CHECK_FALSE(has_media(folder));
}

TEST_CASE("exactly one way to choose media must be given", "[cli][prepare][media]") {
  const TempDir folder;
  write_gifs(folder);
  const auto none = run_energon({"prepare-media", folder.file("d")});
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Catch::Contains("specify which parts are media"));
  for (const std::string command : {"prepare", "prepare-media"}) {
    CAPTURE(command);
    const auto both = run_energon(
        {command, folder.file("d"), "--media-metadata-by-header", "--media-metadata-by-extension"});
    CHECK(both.exit_code == 2);
    CHECK_THAT(both.err, Catch::Contains("exclude each other"));
  }
  const auto empty =
      run_energon({"prepare-media", folder.file("d"), "--media-metadata-by-glob", "*.jpg,,*.png"});
  CHECK(empty.exit_code == 2);
  const auto lines =
      run_energon({"prepare", folder.write("x.jsonl", "{}\n"), "--media-metadata-by-extension"});
  CHECK(lines.exit_code == 2);
  CHECK_THAT(lines.err, Catch::Contains("--media-metadata-by-extension is for folders of shards"));
}

TEST_CASE("prepare warns if media metadata is lost", "[cli][prepare][media]") {
  const TempDir folder;
  write_gifs(folder);
  const Words prepare = Words{"prepare", folder.file("d")} + kPrepare;
  REQUIRE(run_energon(prepare + Words{"--media-metadata-by-extension"}).exit_code == 0);
  CHECK(run_energon(prepare + Words{"--update"}).err.empty());
  CHECK(has_media(folder));
  const auto again = run_energon(prepare + Words{"--force-overwrite"});
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.err, Catch::Contains("energon prepare-media"));
  CHECK_FALSE(has_media(folder));
}

TEST_CASE("a metadataset leaves out samples that do not match its media filter", "[cli][media]") {
  const TempDir folder;
  write_gifs(folder);
  REQUIRE(run_energon(Words{"prepare", folder.file("d")} + kPrepare +
                      Words{"--media-metadata-by-extension"})
              .exit_code == 0);
  const std::string path =
      folder.write("m.yaml",
                   "__class__: MetadatasetV2\nsplits:\n  train:\n    path: d\n"
                   "    media_filter: {part: gif, min_width: 310, max_width: 610}\n");
  const auto result = run_energon({"run", path, "--mode", "val", "--split", "train"});
  CHECK(result.exit_code == 0);
  CHECK(energon::testing::keys_of({result.out.substr(0, result.out.find('\n'))}) == Words{"3"});
  CHECK(json_lines(result.out).size() == 4);
}

TEST_CASE("prepare-media accepts a folder of files", "[cli][prepare][media]") {
  const TempDir folder;
  for (int i = 0; i < 4; ++i) {
    folder.write(fmt::format("d/sub/{}.gif", i), i == 0 ? "GIF89a" : gif(100 * i + 10, 50));
  }
  folder.write("d/readme.txt", "text");
  const std::string path = folder.file("d");
  const Words command = {"prepare-media", path, "--no-progress"};
  const auto none = run_energon(command + Words{"--media-metadata-by-glob", "*.jpg"});
  CHECK(none.exit_code == 1);
  CHECK_THAT(
      none.err,
      Catch::Contains(
          "no file matches *.jpg: 5 files with the extensions 'gif, txt'; nothing was stored"));
  const auto result = run_energon(command + Words{"--media-metadata-by-extension"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::StartsWith("Stored media metadata of 3 files: 3 images, 0 of sound "
                                           "or video"));
  CHECK_THAT(result.err, Catch::Contains("warning: no metadata for 'sub/0.gif': the GIF"));
  FolderFileStore store(path);
  CHECK(store.get_media_metadata("sub/3.gif")->width == 310);
  const auto more =
      run_energon({"prepare-media", path, "--media-metadata-by-extension", "--update", "--json"});
  CHECK(more.exit_code == 0);
  CHECK_THAT(more.err, Catch::Contains("5/5 files"));
  const auto json = nlohmann::json::parse(more.out);
  CHECK(json["files"] == 5);
  CHECK(json["shards"] == 0);
  CHECK(json["kept"] == 3);
  CHECK(json["not_read"][0]["name"] == "sub/0.gif");
}

TEST_CASE("prepare of a folder of files names prepare-media", "[cli][prepare][media]") {
  const TempDir folder;
  folder.write("d/0.gif", gif(10, 10));
  const auto result = run_energon(Words{"prepare", folder.file("d")} + kPrepare);
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Catch::Contains("no shards to prepare") &&
                             Catch::Contains("energon prepare-media " + folder.file("d")));
  const auto help = run_energon({"prepare-media", "--help"});
  CHECK_THAT(help.out, Catch::Contains("folder of files"));
}
