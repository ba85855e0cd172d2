#include "media/metadata/add_media_metadata.h"

#include <filesystem>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/prepare/media_update.h"
#include "tests/media/metadata/media_folder.h"

namespace fs = std::filesystem;

using energon::Error;
using energon::ErrorCode;
using energon::glob_filter;
using energon::MediaFilter;
using energon::MediaMetadataOptions;
using energon::MediaMetadataProgress;
using energon::MediaMetadataReport;
using energon::MediaStrategy;
using energon::read_file;
using energon::testing::media_filters;
using energon::testing::media_rows;
using energon::testing::MediaFolder;
using energon::testing::vector_files;

namespace {

using Files = std::map<std::string, std::string>;
using Names = std::vector<std::string>;

const MediaFilter kByExtension = {};
const MediaFilter kByHeader = {.strategy = MediaStrategy::kHeader};

const std::string& image(const std::string& name) { return vector_files().at(name); }

Names names_of(const MediaFolder& folder) {
  Names names;
  for (const auto& [name, row] : media_rows(folder.path())) {
    names.push_back(name);
  }
  return names;
}

// A few parts of each kind, some under wrong names.
Files mixed_files() {
  return {{"0.jpg", image("jpeg-RGB.jpg")},
          {"0.txt", "text"},
          {"1.jpg", image("png-L.png")},
          {"1.bin", image("gif-color.gif")},
          {"2.snd", image("sound.flac")},
          {"2.PNG", image("png-P.png")},
          {"3.mp3", image("sound.mp3")},
          {"3.data", image("sound.mp3")},
          {"4.png", "not one"},
          {"4.bmp", "BM" + std::string(60, '\0')}};
}

std::pair<ErrorCode, std::string> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kInternal, ""};
}

}  // namespace

TEST_CASE("extensions choose the media, content tells their format", "[media][metadata]") {
  const MediaFolder folder({{"a.tar", mixed_files()}});
  const MediaMetadataReport report = folder.add(kByExtension);
  CHECK(names_of(folder) == Names{"0.jpg", "1.jpg", "2.PNG", "3.mp3"});
  CHECK(media_rows(folder.path()).at("1.jpg") ==
        "image\t{\"width\":12,\"height\":8,\"format\":\"PNG\",\"mode\":\"L\"}");
  CHECK(report.parts == 10);
  CHECK(report.images == 3);
  CHECK(report.av == 1);
  REQUIRE(report.unreadable == 2);
  CHECK(report.unreadable_named.at(0).name == "4.bmp");
  CHECK_THAT(report.unreadable_named.at(0).cause, Catch::Contains("BMP images are not supported"));
  CHECK(report.unreadable_named.at(1).shard == "a.tar");
  CHECK(report.part_names.size() == 9);
}

TEST_CASE("first bytes choose the media, or else extensions", "[media][metadata]") {
  const MediaFolder folder({{"a.tar", mixed_files()}});
  CHECK(folder.add(kByHeader).unreadable == 2);
  CHECK(names_of(folder) == Names{"0.jpg", "1.bin", "1.jpg", "2.PNG", "2.snd", "3.data", "3.mp3"});
  CHECK(media_filters(folder.path()) == "1\tHEADER\t\n");
}

TEST_CASE("patterns choose the media", "[media][metadata]") {
  const MediaFolder folder({{"a.tar", mixed_files()}});
  folder.add(glob_filter("1.*,*.snd"));
  CHECK(names_of(folder) == Names{"1.bin", "1.jpg", "2.snd"});
  folder.add(glob_filter("[23].*"));
  CHECK(names_of(folder) == Names{"1.bin", "1.jpg", "2.PNG", "2.snd", "3.data", "3.mp3"});
  CHECK(media_filters(folder.path()) == "1\tGLOB\t1.*,*.snd\n2\tGLOB\t[23].*\n");
}

TEST_CASE("a filter that finds no media changes nothing and is reported", "[media][metadata]") {
  const MediaFolder folder({{"a.tar", mixed_files()}});
  const std::string before = read_file(folder.file(".nv-meta/index.sqlite"));
  const MediaMetadataReport report = folder.add(glob_filter("*.webp"));
  CHECK(report.media() == 0);
  CHECK(report.part_names == Names{"PNG", "bin", "bmp", "data", "jpg", "mp3", "png", "snd", "txt"});
  CHECK(read_file(folder.file(".nv-meta/index.sqlite")) == before);
}

TEST_CASE("parts that have metadata are kept on request", "[media][metadata]") {
  const MediaFolder folder({{"a.tar", mixed_files()}});
  folder.add(glob_filter("0.jpg"));
  {
    energon::MediaUpdate update(folder.path());
    update.add("0.jpg", {.width = 77});
    update.commit();
  }
  const MediaMetadataReport report = folder.add(kByExtension, {.keep_existing = true});
  CHECK(report.kept == 1);
  CHECK(report.images == 2);
  CHECK(media_rows(folder.path()).at("0.jpg") == "image\t{\"width\":77}");
  CHECK(folder.add(kByExtension).images == 3);
  CHECK(media_rows(folder.path()).at("0.jpg") != "image\t{\"width\":77}");
}

TEST_CASE("large parts are read as far as their headers", "[media][metadata]") {
  const std::string tail(1 << 20, 'x');
  const std::string jpeg = image("jpeg-RGB.jpg");
  // A leading segment of 60,000 bytes, so that the header ends after the first bytes.
  const std::string far =
      jpeg.substr(0, 2) + "\xFF\xE2\xEA\x60" + std::string(59998, '\0') + jpeg.substr(2);
  const MediaFolder folder(
      {{"a.tar", {{"0.jpg", jpeg + tail}, {"1.jpg", far}, {"2.png", image("png-L.png") + tail}}}});
  const MediaMetadataReport report = folder.add(kByExtension);
  CHECK(report.images == 3);
  CHECK(report.bytes < 300'000);
  CHECK(media_rows(folder.path()).at("1.jpg") == media_rows(folder.path()).at("0.jpg"));

  const MediaFolder sounds({{"a.tar", {{"0.wav", image("sound.wav") + tail}}}});
  const MediaMetadataReport refused = sounds.add(kByExtension, {.max_part_bytes = 1 << 20});
  CHECK(refused.unreadable == 1);
  CHECK_THAT(refused.unreadable_named.at(0).cause, Catch::Contains("(max_part_bytes)"));
}

TEST_CASE("many shards are read by threads, and progress counts them", "[media][metadata]") {
  std::map<std::string, Files> shards;
  for (int i = 0; i < 20; ++i) {
    shards[fmt::format("s-{:02}.tar", i)] = {{fmt::format("{}.png", i), image("png-RGB.png")},
                                             {fmt::format("{}.jpg", i), "damaged"}};
  }
  const MediaFolder folder(shards);
  MediaMetadataProgress last;
  const MediaMetadataReport report = folder.add(
      kByExtension, {.progress = [&](const MediaMetadataProgress& state) { last = state; }});
  CHECK(last.shards_done == 20);
  CHECK(last.shards_total == 20);
  CHECK(last.media == 20);
  CHECK(report.images == 20);
  CHECK(report.unreadable == 20);
  REQUIRE(report.unreadable_named.size() == 20);
  CHECK(report.unreadable_named.at(3).name == "3.jpg");
  CHECK(media_rows(folder.path()).size() == 20);
}

TEST_CASE("a run that is stopped changes nothing", "[media][metadata]") {
  const MediaFolder folder({{"a.tar", mixed_files()}});
  const std::string before = read_file(folder.file(".nv-meta/index.sqlite"));
  std::stop_source stop;
  const auto [code, message] = error_of([&] {
    folder.add(kByExtension,
               {.stop = stop.get_token(), .progress = [&](const auto&) { stop.request_stop(); }});
  });
  CHECK(code == ErrorCode::kCancelled);
  CHECK(read_file(folder.file(".nv-meta/index.sqlite")) == before);
  CHECK(folder.add(kByExtension).images == 3);
}

TEST_CASE("missing or replaced shards are errors", "[media][metadata]") {
  const MediaFolder folder({{"a.tar", mixed_files()}, {"b.tar", {{"9.png", image("png-L.png")}}}});
  const std::string tar = read_file(folder.file("b.tar"));
  fs::remove(folder.file("b.tar"));
  CHECK(error_of([&] { folder.add(kByExtension); }).first == ErrorCode::kNotFound);
  energon::write_file_atomically(folder.file("b.tar"), energon::as_bytes(tar + "more"));
  CHECK(error_of([&] { folder.add(kByExtension); }).first == ErrorCode::kCorruptData);
}

TEST_CASE("parts that are not at the place in the index are errors", "[media][metadata]") {
  const MediaFolder folder(
      {{"a.tar", {{"0.png", image("png-L.png")}, {"1.png", image("png-RGB.png")}}}});
  std::string tar = read_file(folder.file("a.tar"));
  const auto time = fs::last_write_time(folder.file("a.tar"));
  const std::size_t second = tar.find("1.png");
  tar.replace(second, 3, "2.o");  // another name with the same checksum
  energon::write_file_atomically(folder.file("a.tar"), energon::as_bytes(tar));
  fs::last_write_time(folder.file("a.tar"), time);
  const auto [code, message] = error_of([&] { folder.add(glob_filter("1.png")); });
  CHECK(code == ErrorCode::kCorruptData);
  CHECK_THAT(message, Catch::Contains("no such part there"));
}

TEST_CASE("filters that contradict themselves are refused", "[media][metadata]") {
  const MediaFolder folder({{"a.tar", mixed_files()}});
  int number = 0;
  for (const MediaFilter& filter :
       {glob_filter(""), glob_filter("*.jpg,"), MediaFilter{.strategy = MediaStrategy::kGlob},
        MediaFilter{.patterns = {"*.jpg"}}}) {
    INFO("filter " << number++);
    CHECK(error_of([&] { folder.add(filter); }).first == ErrorCode::kInvalidArgument);
  }
  CHECK(error_of([&] { energon::add_media_metadata(folder.path() + "/none", {}); }).first ==
        ErrorCode::kNotFound);
}
