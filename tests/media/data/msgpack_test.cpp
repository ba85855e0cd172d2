#include "media/data/documents.h"
#include "tests/media/data/encoded_parts.h"
#include "tests/media/data/vectors.h"
#include "tests/support/shared_data.h"

using energon::as_bytes;
using energon::decode_json;
using energon::decode_msgpack;
using energon::DecodeLimits;
using energon::ErrorCode;
using energon::HeapBufferPool;
using energon::List;
using energon::Mapping;
using energon::Null;
using energon::SharedBytes;
using energon::Value;
using energon::testing::exact_copy;
using energon::testing::is_same;
using energon::testing::outcome_of;
using energon::testing::outcomes_of_cuts;
using energon::testing::outcomes_of_flips;
using energon::testing::refusal;
using energon::testing::stored_part;
namespace vectors = energon::testing::vectors;

namespace {

Value msgpack(std::string_view bytes) { return decode_msgpack(exact_copy(bytes).view); }

const auto kDecodeMsgpack = [](const SharedBytes& bytes) { decode_msgpack(bytes.view); };

}  // namespace

TEST_CASE("MessagePack of Python's msgpack is the same tree as its JSON", "[media][data]") {
  CHECK(is_same(msgpack(stored_part(vectors::kTreeMsgpack)),
                decode_json(as_bytes(stored_part(vectors::kTreeJson)))));
}

TEST_CASE("MessagePack gives bytes of every length and single floats", "[media][data]") {
  HeapBufferPool memory;
  const SharedBytes encoded =
      expand_gzip(as_bytes(stored_part(vectors::kExtremesMsgpack)), DecodeLimits(), memory);
  const List list = std::get<List>(msgpack(encoded.text()).base());
  CHECK(std::get<double>(list.at(0).base()) == 3.4028234663852886e38);
  CHECK(std::get<SharedBytes>(list.at(1).base()).text() == std::string_view("\x00\xff", 2));
  CHECK(std::get<SharedBytes>(list.at(2).base()).text() == std::string(300, 'z'));
  CHECK(std::get<SharedBytes>(list.at(3).base()).text() == std::string(70000, 'w'));
}

TEST_CASE("MessagePack parts of a real WebDataset are read", "[media][data]") {
  const auto path = energon::testing::shared_data("webdataset/mpdata.tar");
  if (!path) return energon::testing::skipped();
  const auto parts = energon::testing::tar_contents(*path, ".mp");
  REQUIRE(parts.size() == 100);
  for (std::int64_t i = 0; i < 100; ++i) {  // msgpack 1.2.4 gives {'x': i, 'y': i * i}
    CAPTURE(i);
    CHECK(is_same(msgpack(parts[static_cast<std::size_t>(i)]), Mapping{{"x", i}, {"y", i * i}}));
  }
}

TEST_CASE("MessagePack strings and names may have every length code", "[media][data]") {
  const std::string_view form(
      "\x84\xa1"
      "a\xd9\x01x\xd9\x01"
      "b\xda\x00\x01y\xda\x00\x01"
      "c\xdb\x00\x00\x00\x01z\xdb\x00\x00\x00\x01"
      "a\xc0",
      30);
  CHECK(is_same(msgpack(form), Mapping{{"a", Null()}, {"b", "y"}, {"c", "z"}}));
  CHECK(is_same(msgpack(std::string_view("\xdd\x00\x00\x00\x01\xdf\x00\x00\x00\x00", 10)),
                List{Mapping()}));
  CHECK(is_same(msgpack(std::string_view("\xdc\x00\x01\xde\x00\x00", 6)), List{Mapping()}));
}

TEST_CASE("MessagePack that a Value cannot hold is refused with its place", "[media][data]") {
  CHECK_THAT(refusal(kDecodeMsgpack, "\x92\xc0\xcf\x80\x01\x01\x01\x01\x01\x01\x01",
                     ErrorCode::kUnsupported),
             Catch::Contains("9223654615654924545 at byte 2") && Catch::Contains("as a string"));
  CHECK_THAT(refusal(kDecodeMsgpack, "\x81\x05\xc0", ErrorCode::kUnsupported),
             Catch::Contains("byte 1") && Catch::Contains("0x05; write names as strings"));
  CHECK(outcome_of(kDecodeMsgpack, "\x81\xc4\x01x\xc0") == "unsupported");
  CHECK_THAT(
      refusal(kDecodeMsgpack, stored_part(vectors::kTimestampMsgpack), ErrorCode::kUnsupported),
      Catch::Contains("-1 (timestamp)"));
  for (const std::string& text :
       {std::string("\xc7\x01\x05x"), std::string("\xd4\x05x"), std::string("\xd5\x05xy"),
        "\xd8\x05" + std::string(16, 'x'), std::string("\xc8\x00\x01\x05x", 5)}) {
    CAPTURE(text);
    CHECK_THAT(refusal(kDecodeMsgpack, text, ErrorCode::kUnsupported), Catch::Contains("type 5"));
  }
  CHECK(outcome_of(kDecodeMsgpack, "\xd8\x05x") == "corrupt_data");  // of 16 bytes
  CHECK_THAT(refusal(kDecodeMsgpack, std::string_view("\xc9\x00\x00\x00\x01\x05x", 7),
                     ErrorCode::kUnsupported),
             Catch::Contains("type 5"));
}

TEST_CASE("damaged MessagePack is refused with its place", "[media][data]") {
  CHECK_THAT(refusal(kDecodeMsgpack, "\xa2x", ErrorCode::kCorruptData),
             Catch::Contains("it ends at byte 2, inside the value at byte 0"));
  CHECK_THAT(refusal(kDecodeMsgpack, "\xa2x\xff", ErrorCode::kCorruptData),
             Catch::Contains("byte 2 is 0xff"));
  CHECK_THAT(refusal(kDecodeMsgpack, "\xc0\xc0", ErrorCode::kCorruptData),
             Catch::Contains("at byte 1"));
  CHECK_THAT(refusal(kDecodeMsgpack, "\xc1", ErrorCode::kCorruptData),
             Catch::Contains("at byte 0: 0xC1"));
  const std::string tree = stored_part(vectors::kTreeMsgpack);
  CHECK(outcomes_of_cuts(kDecodeMsgpack, tree) == std::set<std::string>{"corrupt_data"});
  CHECK(outcomes_of_flips(kDecodeMsgpack, tree).count("internal") == 0);
}

TEST_CASE("MessagePack takes no memory for lengths that are only declared", "[media][data]") {
  for (const std::string_view text :
       {"\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff", "\xc6\xff\xff\xff\xff",
        "\xdb\xff\xff\xff\xff", "\xc9\xff\xff\xff\xff"}) {
    CAPTURE(text);
    CHECK(outcome_of(kDecodeMsgpack, text) == "corrupt_data");
  }
  const DecodeLimits limits{.max_bytes = 1000};
  const auto decode = [&](const SharedBytes& bytes) { decode_msgpack(bytes.view, limits); };
  CHECK(outcome_of(decode, "\x91\xc0") == "value");
  CHECK(outcome_of(decode, std::string("\xdc\x00\x40", 3) + std::string(64, '\x01')) ==
        "resource_exhausted");
}

TEST_CASE("MessagePack deeper than the limit is refused", "[media][data]") {
  const DecodeLimits limits{.max_depth = 2};
  const auto decode = [&](const SharedBytes& bytes) { decode_msgpack(bytes.view, limits); };
  CHECK(outcome_of(decode, "\x91\x91\xc0") == "value");
  CHECK_THAT(refusal(decode, "\x91\x81\xa1x\x91\xc0", ErrorCode::kResourceExhausted),
             Catch::Contains("byte 4"));
  CHECK(outcome_of(kDecodeMsgpack, std::string(10'000'000, '\x91')) == "resource_exhausted");
}
