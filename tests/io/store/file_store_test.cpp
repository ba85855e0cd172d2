#include "io/store/file_store.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "tests/io/shards.h"
#include "tests/support/child_runner.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

using energon::AuxReference;
using energon::ByteRange;
using energon::ErrorCode;
using energon::FileStore;
using energon::FileStoreItem;
using energon::FolderFileStore;
using energon::JsonlFileStore;
using energon::make_file_store;
using energon::WebdatasetFileStore;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::gzip;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;

namespace {

// Every error names store and key.
std::string error_text(FileStore& store, const std::string& name, ErrorCode expected) {
  const auto [code, message] = error_of([&] { store.get(name); });
  CHECK(code == expected);
  CHECK(contains(message, "[path: " + store.path() + ", sample: " + name + "]"));
  return message;
}

}  // namespace

TEST_CASE("parts of a prepared dataset are found by key and part", "[io][formats][store]") {
  const TempDir folder;
  folder.write("d/a.tar", make_shard(0, 3));
  folder.write("d/sub/b.tar", make_shard(3, 3));
  prepare_folder(folder.file("d"), {.split_ratios = {{"train", 1}, {"val", 1}}});
  WebdatasetFileStore store(folder.file("d"));
  const FileStoreItem item = store.get("000004.txt");
  CHECK(item.bytes.text() == "000004");
  CHECK(item.source_path == folder.file("d/sub/b.tar"));
  CHECK(item.shard == "sub/b.tar");
  CHECK(item.sample_index == 1);
  CHECK(item.range == ByteRange{2560 + 512, 6});
  CHECK(store.get("000000.bin").bytes.size() == 1000);
  CHECK(store.get("000004.txt").bytes.text() == "000004");
  CHECK(contains(error_text(store, "000009.txt", ErrorCode::kNotFound), "has no such part"));
  CHECK(contains(error_text(store, "000004", ErrorCode::kNotFound), "names are key.part"));
}

TEST_CASE("bytes outlive their store", "[io][formats][store]") {
  const TempDir folder;
  folder.write("d/a.txt", "hello");
  auto store = make_file_store({"x", AuxReference::Kind::kFolder, folder.file("d")});
  const FileStoreItem item = store->get("a.txt");
  store.reset();
  CHECK(item.bytes.text() == "hello");
}

TEST_CASE("parts of compressed shards are read from the expanded copy", "[io][formats][store]") {
  const TempDir folder;
  folder.write("d/a.tgz", gzip(make_shard(0, 3)));
  prepare_folder(folder.file("d"), {.cache_dir = folder.file("cache")});
  WebdatasetFileStore store(folder.file("d"), folder.file("cache"));
  const FileStoreItem item = store.get("000002.txt");
  CHECK(item.bytes.text() == "000002");
  CHECK(item.shard == "a.tgz");
  CHECK(item.source_path.starts_with(folder.file("cache")));
}

TEST_CASE("the error of an unprepared store gives the command to run", "[io][formats][store]") {
  const TempDir folder;
  folder.write("d/a.tar", make_shard(0, 3));
  WebdatasetFileStore store(folder.file("d"));
  CHECK(contains(error_text(store, "000000.txt", ErrorCode::kInvalidArgument),
                 "run: energon prepare " + folder.file("d")));
  prepare_folder(folder.file("d"));
  CHECK(store.get("000000.txt").bytes.text() == "000000");
}

TEST_CASE("a shard that was changed is an error that names it", "[io][formats][store]") {
  const TempDir folder;
  const std::string tar = folder.write("d/a.tar", make_shard(0, 3));
  prepare_folder(folder.file("d"));
  const bool is_recorded = GENERATE(true, false);
  if (!is_recorded) {
    std::filesystem::remove(folder.file("d/.nv-meta/shard_record.bin"));
  }
  WebdatasetFileStore store(folder.file("d"));
  std::filesystem::resize_file(tar, 1024);
  const std::string message = error_text(store, "000001.txt", ErrorCode::kCorruptData);
  CHECK(contains(message, "(" + tar));
  CHECK(contains(message,
                 is_recorded
                     ? "it has 1024 bytes, then it had 8704"
                     : "but the shard at byte 1024; the shard was changed after it was prepared"));
  std::filesystem::remove(tar);
  WebdatasetFileStore other(folder.file("d"));
  CHECK(contains(error_text(other, "000001.txt", ErrorCode::kNotFound), tar));
}

TEST_CASE("a part whose header is missing or belongs to another part is an error",
          "[io][formats][store]") {
  const TempDir folder;
  const std::string long_key(150, 'k');
  energon::testing::TarBuilder tar;
  tar.file("a.txt", "one").file("a.cls", "7");
  tar.pax({{"path", long_key + ".txt"}}).file("short", "pax").gnu_long_name(long_key + ".cls");
  tar.gnu_file("short", "gnu").end();
  const std::string path = folder.write("d/a.tar", tar.text());
  prepare_folder(folder.file("d"));
  std::filesystem::remove(folder.file("d/.nv-meta/shard_record.bin"));
  {
    WebdatasetFileStore store(folder.file("d"));
    CHECK(store.get("a.txt").bytes.text() == "one");
    CHECK(store.get(long_key + ".txt").bytes.text() == "pax");
    CHECK(store.get(long_key + ".cls").bytes.text() == "gnu");
    CHECK(store.get("a.cls").range.size == 1);
  }
  std::string bytes = tar.text();
  SECTION("zeroed") { std::fill_n(bytes.begin() + 1024, 1024, '\0'); }
  SECTION("of a tar with the same layout") {
    bytes = energon::testing::TarBuilder().file("a.txt", "one").file("b.cls", "8").text() +
            bytes.substr(2048);
  }
  folder.write("d/a.tar", bytes);
  WebdatasetFileStore store(folder.file("d"));
  CHECK(store.get("a.txt").bytes.text() == "one");
  CHECK(contains(error_text(store, "a.cls", ErrorCode::kCorruptData), path));
}

TEST_CASE("a long name in two fields is compared with the header alone", "[io][formats][store]") {
  const TempDir folder;
  energon::testing::TarBuilder tar;
  for (const auto& [name, text] : {std::pair{"1.cls", "7"}, {"1.txt", "one"}, {"1.xyz", "two"}}) {
    tar.header({.name = name, .size = std::string_view(text).size(), .prefix = "some/folder"});
    tar.data(text);
  }
  folder.write("d/a.tar", tar.end().text());
  prepare_folder(folder.file("d"));
  std::filesystem::remove(folder.file("d/.nv-meta/shard_record.bin"));
  // Lets a walk over the sample end at its first header.
  std::string bytes = tar.text();
  std::fill_n(bytes.begin(), 512, '\xff');
  // A part with the header of another folder's part.
  bytes.replace(4 * 512, 512,
                energon::testing::tar_header({.name = "1.xyz", .size = 3, .prefix = "any"}));
  folder.write("d/a.tar", bytes);
  WebdatasetFileStore store(folder.file("d"));
  CHECK(store.get("some/folder/1.txt").bytes.text() == "one");
  error_text(store, "some/folder/1.xyz", ErrorCode::kCorruptData);
  error_text(store, "some/folder/1.cls", ErrorCode::kCorruptData);
}

TEST_CASE("a shard list that leads out of the dataset is refused", "[io][formats][store]") {
  const TempDir folder;
  folder.write("d/a.tar", make_shard(0, 3));
  prepare_folder(folder.file("d"));
  folder.write("d/.nv-meta/.info.json", R"({"shard_counts": {"../a.tar": 3}})");
  WebdatasetFileStore store(folder.file("d"));
  CHECK(contains(error_text(store, "000001.txt", ErrorCode::kInvalidArgument), "leads out of"));
  folder.write("d/.nv-meta/.info.json", R"({"shard_counts": {}})");
  WebdatasetFileStore empty(folder.file("d"));
  CHECK(contains(error_text(empty, "000001.txt", ErrorCode::kCorruptData), "lists 0 shards"));
}

TEST_CASE("a store that was used before a fork works after it", "[io][formats][store][fork]") {
  const TempDir folder;
  folder.write("d/a.tar", make_shard(0, 3));
  prepare_folder(folder.file("d"));
  WebdatasetFileStore store(folder.file("d"));
  store.get("000000.txt");
  const auto result = energon::testing::run_in_child(
      [&] { return store.get("000001.txt").bytes.text() == "000001" ? 0 : 1; });
  CHECK(result.exit_code == 0);
  CHECK(store.get("000002.txt").bytes.text() == "000002");
}

TEST_CASE("the number of open shards is limited", "[io][formats][store]") {
  const TempDir folder;
  for (int i = 0; i < 140; ++i) {
    folder.write(fmt::format("d/{:03d}.tar", i), make_shard(i, 1));
  }
  prepare_folder(folder.file("d"));
  WebdatasetFileStore store(folder.file("d"));
  for (int i = 0; i < 140; ++i) {
    CAPTURE(i);
    CHECK(store.get(fmt::format("{:06d}.txt", i)).bytes.text() == fmt::format("{:06d}", i));
  }
  std::size_t open = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const auto target = std::filesystem::read_symlink(entry.path(), ignored);
    open += target.string().starts_with(folder.file("d/")) && target.extension() == ".tar" ? 1 : 0;
  }
  CHECK(open == 12);
}

TEST_CASE("files of a folder are found by their path", "[io][formats][store]") {
  const TempDir folder;
  folder.write("d/sub/a.bin", std::string("x\0y", 3));
  folder.write("d/empty", "");
  folder.write("secret", "s");
  std::filesystem::create_symlink("sub/a.bin", folder.file("d/link"));
  FolderFileStore store(folder.file("d"));
  const FileStoreItem item = store.get("sub/a.bin");
  CHECK(item.bytes.text() == std::string("x\0y", 3));
  CHECK(item.source_path == folder.file("d/sub/a.bin"));
  CHECK(item.shard == "sub/a.bin");
  CHECK(item.range == ByteRange{0, 3});
  CHECK(store.get("./sub/../sub/a.bin").bytes.size() == 3);
  CHECK(store.get("link").bytes.size() == 3);
  CHECK(store.get("empty").bytes.size() == 0);
  for (const std::string& name :
       {std::string("../secret"), folder.file("secret"), std::string("sub/../../secret"),
        std::string(""), std::string("..")}) {
    CAPTURE(name);
    CHECK(contains(error_text(store, name, ErrorCode::kInvalidArgument),
                   "the name leads out of the folder"));
  }
  CHECK(error_of([&] { store.get(std::string_view("a\0b", 3)); }).first ==
        ErrorCode::kInvalidArgument);
  CHECK(contains(error_text(store, "absent", ErrorCode::kNotFound),
                 "cannot read a file of the folder: cannot open file"));
  CHECK(contains(error_text(store, "sub", ErrorCode::kInvalidArgument), "not a regular file"));
}

TEST_CASE("lines of a JSONL file are found by index", "[io][formats][store]") {
  const TempDir folder;
  const std::string path = folder.write("x.jsonl", "{\"i\": 0}\n{\"i\": 1}\n\n{\"i\": 2}");
  JsonlFileStore store(path, folder.file("cache"));
  CHECK_FALSE(std::filesystem::exists(path + ".idx"));  // nothing is opened before it is needed
  CHECK(store.get("0").bytes.text() == "{\"i\": 0}\n");
  CHECK(store.get("1.json").bytes.text() == "{\"i\": 1}\n\n");
  const FileStoreItem item = store.get("2.json");
  CHECK(item.bytes.text() == "{\"i\": 2}");
  CHECK(item.source_path == path);
  CHECK(item.shard == "x.jsonl");
  CHECK(item.sample_index == 2);
  CHECK(item.range == ByteRange{19, 8});
  CHECK(contains(error_text(store, "3.json", ErrorCode::kNotFound), "has 3 samples"));
  for (const char* name : {"-1", "x", ".json", "1.txt", "1.5"}) {
    CAPTURE(name);
    CHECK(contains(error_text(store, name, ErrorCode::kInvalidArgument), "by its index"));
  }
}

TEST_CASE("the reference determines the store", "[io][formats][store]") {
  const TempDir folder;
  folder.write("d/a.tar", make_shard(0, 1));
  prepare_folder(folder.file("d"));
  folder.write("x.jsonl", "{}");
  using Kind = AuxReference::Kind;
  const auto text = [&](Kind kind, const std::string& path, const std::string& name) {
    return std::string(
        make_file_store({"x", kind, folder.file(path)}, folder.file("c"))->get(name).bytes.text());
  };
  CHECK(text(Kind::kWebdataset, "d", "000000.txt") == "000000");
  CHECK(text(Kind::kFolder, "", "x.jsonl") == "{}");
  CHECK(text(Kind::kJsonl, "x.jsonl", "0") == "{}");
}
