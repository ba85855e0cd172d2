#include "io/index/media_table.h"

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/index/sample_index.h"
#include "tests/io/index/index_rows.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::copy_media_tables;
using energon::ErrorCode;
using energon::MediaKind;
using energon::MediaMetadata;
using energon::MediaTableWriter;
using energon::parse_media_json;
using energon::SampleIndex;
using energon::to_media_json;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::TempDir;
using energon::testing::write_index;

namespace {

// Two shards: samples "000000" with two media, "000001" with none, and "a.b/x".
std::string write_media_example(const TempDir& folder) {
  const std::string path = folder.file("index.sqlite");
  write_index(path, {{{"000000", 0, 2048, {{"jpg", 512, 100}, {"seg.png", 1536, 7}}},
                      {"000001", 2048, 1024, {{"txt", 2560, 0}}}},
                     {{"a.b/x", 512, 1024, {{"wav", 1024, 3}}}}});
  return path;
}

// The example with three rows.
std::string write_media(const TempDir& folder) {
  const std::string path = write_media_example(folder);
  MediaTableWriter writer(path);
  writer.add("000000.jpg", "image", R"({"width":3,"height":2,"format":"JPEG","mode":"RGB"})");
  writer.add("a.b/x.wav", "av", R"({"audio_duration":1.5,"audio_channels":2})");
  writer.add("000000.seg.png", "image", R"({"width":8,"height":9,"format":"PNG","mode":"L"})");
  writer.add_filter("EXTENSION", "");
  writer.finish();
  return path;
}

std::vector<std::string> query_media(const std::string& path, const std::string& sql) {
  const energon::SqlitePtr db = energon::open_sqlite(path, SQLITE_OPEN_READWRITE, path);
  energon::Statement statement(db.get(), sql, path);
  std::vector<std::string> rows;
  while (statement.step()) {
    rows.emplace_back(statement.text(0));
  }
  return rows;
}

std::vector<std::string> media_of(const SampleIndex& index, std::int64_t shard,
                                  const std::string& part) {
  std::vector<std::string> found;
  index.for_each_media_of(shard, part, [&](std::int64_t sample, const MediaMetadata& metadata) {
    found.push_back(fmt::format("{} {}", sample, to_media_json(metadata)));
  });
  return found;
}

}  // namespace

// Python 3.11: json.dumps(value, separators=(",", ":"))
TEST_CASE("media metadata is written as Python writes it", "[io][formats][media]") {
  CHECK(to_media_json({.width = 32, .height = 16, .format = "JPEG", .mode = "RGB"}) ==
        R"({"width":32,"height":16,"format":"JPEG","mode":"RGB"})");
  CHECK(to_media_json({.kind = MediaKind::kAv,
                       .width = 192,
                       .height = 108,
                       .video_duration = 63,
                       .video_frames = 1890,
                       .video_fps = 30000.0 / 1001,
                       .audio_duration = 1e-5,
                       .audio_channels = 2,
                       .audio_sample_rate = 48000,
                       .audio_samples = 3}) ==
        R"({"video_duration":63.0,"video_num_frames":1890,"video_fps":29.97002997002997,)"
        R"("video_width":192,"video_height":108,"audio_duration":1e-05,"audio_channels":2,)"
        R"("audio_sample_rate":48000,"audio_num_samples":3})");
  const auto number = [](double value) {
    return to_media_json({.kind = MediaKind::kAv, .video_duration = value});
  };
  CHECK(number(0.1) == R"({"video_duration":0.1})");
  CHECK(number(1e15) == R"({"video_duration":1000000000000000.0})");
  CHECK(number(1e16) == R"({"video_duration":1e+16})");
  CHECK(number(123456789012345680.0) == R"({"video_duration":1.2345678901234568e+17})");
  CHECK(number(0.0001) == R"({"video_duration":0.0001})");
  CHECK(number(5e-324) == R"({"video_duration":5e-324})");
  CHECK(number(std::numeric_limits<double>::infinity()) == "{}");
}

TEST_CASE("media metadata is read back", "[io][formats][media]") {
  const MediaMetadata image{.width = 3, .height = 4, .format = "GIF", .mode = "P"};
  CHECK(parse_media_json("image", to_media_json(image)) == image);
  const MediaMetadata clip{.kind = MediaKind::kAv, .video_duration = 0.1, .audio_samples = 7};
  CHECK(parse_media_json("av", to_media_json(clip)) == clip);
  CHECK(parse_media_json("image", R"({"depth":3,"width":null})") == MediaMetadata{});
  CHECK(parse_media_json("av", R"({"video_duration":2})").video_duration == 2.0);
  for (const auto& [type, json, problem] : std::vector<std::array<std::string, 3>>{
           {"model", "{}", "has type 'model'"},
           {"image", "[]", "not a JSON object"},
           {"image", "{\"width\":", "not a JSON object"},
           {"image", R"({"width":"3"})", "'width' that is not an integer"},
           {"image", R"({"width":1.5})", "'width' that is not an integer"},
           {"image", R"({"width":18446744073709551615})", "'width' that is not an integer"},
           {"image", R"({"mode":3})", "'mode' that is not a string"},
           {"av", R"({"video_fps":"a"})", "'video_fps' that is not a number"},
           {"av", R"({"video_fps":1e999})", ""}}) {
    const auto [code, message] =
        error_of([&type = type, &json = json] { parse_media_json(type, json); });
    CAPTURE(json, message);
    CHECK(code == ErrorCode::kCorruptData);
    CHECK(contains(message, problem));
  }
}

TEST_CASE("the tables of media metadata are those of Energon", "[io][formats][media]") {
  const TempDir folder;
  const std::string path = write_media(folder);
  const auto columns = [&](const std::string& table) {
    return query_media(path,
                       fmt::format("SELECT name || ' ' || type || ' ' || \"notnull\" || ' ' || "
                                   "coalesce(dflt_value, '-') || ' ' || pk "
                                   "FROM pragma_table_info('{}')",
                                   table));
  };
  CHECK(columns("media_metadata") == std::vector<std::string>{"entry_key TEXT 0 - 1",
                                                              "metadata_type TEXT 1 - 0",
                                                              "metadata_json TEXT 1 - 0"});
  CHECK(columns("media_filters") ==
        std::vector<std::string>{"filter_id INTEGER 0 - 1", "strategy TEXT 1 - 0",
                                 "patterns TEXT 0 - 0",
                                 "created_at_utc TEXT 0 CURRENT_TIMESTAMP 0"});
  CHECK(query_media(path, "SELECT name FROM pragma_index_list('media_filters')") ==
        std::vector<std::string>{"sqlite_autoindex_media_filters_1"});
  CHECK(SampleIndex(path).check().empty());
}

TEST_CASE("media metadata is found by name and by shard", "[io][formats][media]") {
  const TempDir folder;
  const SampleIndex index(write_media(folder));
  REQUIRE(index.has_media());
  CHECK(index.media_metadata("000000.jpg")->width == 3);
  CHECK(index.media_metadata("a.b/x.wav")->audio_duration == 1.5);
  CHECK_FALSE(index.media_metadata("000001.txt"));
  const std::string jpg = R"(0 {"width":3,"height":2,"format":"JPEG","mode":"RGB"})";
  const std::string png = R"(0 {"width":8,"height":9,"format":"PNG","mode":"L"})";
  CHECK(media_of(index, 0, "") == std::vector<std::string>{jpg, png});
  CHECK(media_of(index, 0, "seg.png") == std::vector<std::string>{png});
  CHECK(media_of(index, 0, "png").empty());
  CHECK(media_of(index, 1, "").size() == 1);
  CHECK(media_of(index, 2, "").empty());
  CHECK(index.sample_count() == 3);
  std::vector<std::string> parts;
  index.for_each_part_of(0, [&](std::string_view key, const energon::PartLocation& part) {
    parts.push_back(
        fmt::format("{}.{} {} {}", key, part.part, part.sample_index, part.content.offset));
    return parts.size() < 2;
  });
  CHECK(parts == std::vector<std::string>{"000000.jpg 0 512", "000000.seg.png 0 1536"});
}

TEST_CASE("rows are replaced, and a filter is recorded once", "[io][formats][media]") {
  const TempDir folder;
  const std::string path = write_media(folder);
  {
    MediaTableWriter writer(path);
    writer.add("000000.jpg", "image", R"({"width":5})");
    writer.add_filter("EXTENSION", "");
    writer.add_filter("GLOB", "*.jpg,*.png");
    writer.finish();
  }
  CHECK(SampleIndex(path).media_metadata("000000.jpg")->width == 5);
  CHECK(SampleIndex(path).media_metadata("a.b/x.wav"));
  CHECK(query_media(path,
                    "SELECT strategy || ' ' || patterns FROM media_filters ORDER BY filter_id") ==
        std::vector<std::string>{"EXTENSION ", "GLOB *.jpg,*.png"});
  CHECK(query_media(path, "SELECT 1 FROM media_filters WHERE created_at_utc LIKE '20__-__-__ %'")
            .size() == 2);
}

TEST_CASE("media metadata that is missing or damaged is an error", "[io][formats][media]") {
  const TempDir folder;
  const std::string path = write_media_example(folder);
  {
    const SampleIndex index(path);
    CHECK_FALSE(index.has_media());
    const auto [code, message] = error_of([&] { index.media_metadata("000000.jpg"); });
    CHECK(code == ErrorCode::kUnsupported);
    CHECK(contains(message, "energon prepare-media"));
    CHECK(error_of([&] { media_of(index, 0, ""); }).first == ErrorCode::kUnsupported);
  }
  MediaTableWriter writer(path);
  writer.add("000000.jpg", "image", "{");
  writer.finish();
  const SampleIndex index(path);
  int number = 0;
  for (const auto& look : {std::function<void()>([&] { index.media_metadata("000000.jpg"); }),
                           std::function<void()>([&] { media_of(index, 0, ""); })}) {
    INFO("look " << number++);
    const auto [code, message] = error_of(look);
    CHECK(code == ErrorCode::kCorruptData);
    CHECK(contains(message, "sample: 000000"));
  }
}

TEST_CASE("writing media metadata runs no code in the database", "[io][formats][media]") {
  const TempDir folder;
  const std::string path = write_media(folder);
  query_media(path,
              "CREATE TRIGGER bad AFTER INSERT ON media_metadata BEGIN DELETE FROM samples; END");
  {
    MediaTableWriter writer(path);
    writer.add("000001.txt", "image", "{}");
    writer.finish();
  }
  CHECK(SampleIndex(path).sample_count() == 3);
  const TempDir other;
  const std::string view = write_media_example(other);
  query_media(view, "CREATE VIEW media_metadata AS SELECT 1 AS entry_key");
  CHECK(error_of([&] { MediaTableWriter writer(view); }).first == ErrorCode::kCorruptData);
  CHECK_FALSE(SampleIndex(view).has_media());
}

TEST_CASE("a truncated database never returns wrong media metadata", "[io][formats][media]") {
  const TempDir folder;
  const std::string path = write_media(folder);
  const std::string whole = energon::read_file(path);
  const auto all = media_of(SampleIndex(path), 0, "");
  for (std::size_t size = 0; size < whole.size(); size += 509) {
    CAPTURE(size);
    const std::string cut = folder.write("cut.sqlite", whole.substr(0, size));
    std::vector<std::string> found = all;
    const auto read = error_of([&] { found = media_of(SampleIndex(cut), 0, ""); });
    CHECK(found == all);
    const auto write = error_of([&] {
      MediaTableWriter writer(cut);
      writer.add("000000.jpg", "image", "{}");
      writer.finish();
    });
    CHECK((read.second.empty() || read.first == ErrorCode::kCorruptData ||
           read.first == ErrorCode::kUnsupported));
    CHECK((size == 0 || write.second.empty() || write.first == ErrorCode::kCorruptData));
  }
}

TEST_CASE("rows are copied from an earlier database", "[io][formats][media]") {
  const TempDir folder;
  const TempDir other;
  const std::string from = write_media(folder);
  const std::string to = write_media_example(other);
  CHECK(copy_media_tables(from, to));
  const std::string all = "SELECT entry_key || metadata_type || metadata_json FROM media_metadata";
  CHECK(query_media(to, all) == query_media(from, all));
  CHECK(query_media(to, "SELECT strategy FROM media_filters") ==
        std::vector<std::string>{"EXTENSION"});
  query_media(from, "UPDATE media_filters SET created_at_utc = '2001-02-03 04:05:06'");
  const TempDir dated;
  REQUIRE(copy_media_tables(from, write_media_example(dated)));
  CHECK(query_media(dated.file("index.sqlite"), "SELECT created_at_utc FROM media_filters") ==
        std::vector<std::string>{"2001-02-03 04:05:06"});
  const TempDir third;
  CHECK_FALSE(copy_media_tables(write_media_example(third), to));
}
