#include "energon/sample/restore_key.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "io/error.h"

using energon::RestoreKey;
using energon::split_key;
using energon::Stage;

namespace {

RestoreKey leaf(std::int64_t index) { return RestoreKey::leaf(Stage::kWebdataset, {0, index}); }

RestoreKey batch_key() {
  const std::vector<RestoreKey> inner = {RestoreKey::around(Stage::kMap, {34}, leaf(812)),
                                         leaf(40)};
  return RestoreKey::around(Stage::kLogicalShard, {3, 17},
                            RestoreKey::list(Stage::kBatch, {17}, inner));
}

}  // namespace

TEST_CASE("a restore key survives a round trip through its text and byte forms",
          "[energon][restore_key]") {
  const RestoreKey key = batch_key();
  CHECK(key.text() == "LogicalShard(3,17)/Batch(17)[Map(34)/Webdataset(0,812),Webdataset(0,40)]");
  CHECK(RestoreKey::from_text(key.text()) == key);
  CHECK(RestoreKey::from_bytes(key.bytes()) == key);
  const std::vector<RestoreKey> nothing;
  CHECK(RestoreKey::list(Stage::kBatch, {1}, nothing).text() == "Batch(1)[]");
}

TEST_CASE("keys are split level by level", "[energon][restore_key]") {
  const auto outer = split_key(batch_key(), Stage::kLogicalShard, 2, 1);
  CHECK(outer.integers == std::vector<std::int64_t>{3, 17});
  const auto batch = split_key(outer.inner[0], Stage::kBatch, 1);
  REQUIRE(batch.inner.size() == 2);
  CHECK(batch.inner[1] == leaf(40));
  CHECK_THROWS_AS(split_key(leaf(1), Stage::kMap, 1, 1), energon::Error);
  CHECK_THROWS_AS(split_key(leaf(1), Stage::kWebdataset, 3, 0), energon::Error);
}

TEST_CASE("the leaf of a key is that of its first innermost key", "[energon][restore_key]") {
  CHECK(energon::leaf_of(batch_key()) == 0);
  CHECK(energon::leaf_of(RestoreKey::from_text(
            "Packing(3)[Batch(0)[Map(1)/Webdataset(7,2),Webdataset(8,0)],Webdataset(9,0)]")) == 7);
  for (const char* text : {"Batch(0)[]", "Map(3)", "Batch(1)[Batch(2)[]]", "Webdataset()"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(energon::leaf_of(RestoreKey::from_text(text)), Catch::Contains(text));
  }
  CHECK_THROWS_AS(energon::leaf_of(RestoreKey()), energon::Error);
}

TEST_CASE("the byte form keeps the order of the numbers", "[energon][restore_key]") {
  std::vector<RestoreKey> keys;
  for (const std::int64_t index :
       {0L, 1L, 2L, 127L, 128L, 255L, 256L, 65535L, 65536L, 1L << 40, INT64_MAX}) {
    CAPTURE(index);
    keys.push_back(leaf(index));
    CHECK(RestoreKey::from_text(keys.back().text()) == keys.back());
  }
  CHECK(std::is_sorted(keys.begin(), keys.end(),
                       [](const auto& a, const auto& b) { return a.bytes() < b.bytes(); }));
}

TEST_CASE("text that is not a key is refused with the position", "[energon][restore_key]") {
  for (const char* text : {"", "Webdataset", "Webdataset(", "Webdataset(0,", "Webdataset(-1)",
                           "Stranger(1)", "Batch(1)[", "Batch(1)[Webdataset(0,1)",
                           "Webdataset(0,1)x", "Map(1)/", "Webdataset(99999999999999999999)"}) {
    INFO(text);
    CHECK_THROWS_WITH(RestoreKey::from_text(text), Catch::Contains("position"));
  }
}

TEST_CASE("the samples in a key are found through all stages, in order", "[energon][restore_key]") {
  const auto samples = [](const char* text) {
    std::vector<std::pair<std::uint32_t, std::int64_t>> found;
    for (const energon::SampleRef& sample : energon::samples_in(RestoreKey::from_text(text))) {
      found.emplace_back(sample.leaf, sample.index);
    }
    return found;
  };
  using Expected = std::vector<std::pair<std::uint32_t, std::int64_t>>;
  CHECK(samples("Webdataset(2,812)") == Expected{{2, 812}});
  CHECK(samples("LogicalShard(3,17)/Map(4)/Batch(17)[Packing(2)[Map(9)/Webdataset(0,5),"
                "FlatMap(3,1)/Map(8)/Webdataset(1,6)],IterMap(0,1)[Webdataset(0,7)],"
                "GroupBatch(1)[]]") == Expected{{0, 5}, {1, 6}, {0, 7}});
  CHECK(energon::samples_in(RestoreKey()).empty());
  CHECK_THROWS_WITH(samples("Map(3)/Batch(1)"), Catch::Contains("ends in Batch"));
  CHECK_THROWS_WITH(samples("Webdataset(4294967296,1)"), Catch::Contains("not a sample"));
}

TEST_CASE("bytes that are truncated or flipped anywhere are refused", "[energon][restore_key]") {
  const std::string bytes = batch_key().bytes();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    CHECK_THROWS_AS(RestoreKey::from_bytes(bytes.substr(0, length)), energon::Error);
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    CAPTURE(bit);
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    try {
      const RestoreKey key = RestoreKey::from_bytes(flipped);
      CHECK(RestoreKey::from_text(key.text()).text() == key.text());
    } catch (const energon::Error& error) {
      CHECK(error.code() == energon::ErrorCode::kInvalidArgument);
    }
  }
  CHECK_THROWS_AS(RestoreKey::from_bytes(std::string(100000, '\x03') + "\x01"), energon::Error);
}
