#include <cmath>

#include "media/data/documents.h"
#include "tests/media/data/encoded_parts.h"
#include "tests/media/data/vectors.h"

using energon::as_bytes;
using energon::decode_cbor;
using energon::decode_json;
using energon::DecodeLimits;
using energon::ErrorCode;
using energon::HeapBufferPool;
using energon::List;
using energon::Mapping;
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

Value cbor(std::string_view bytes) { return decode_cbor(exact_copy(bytes).view); }

const auto kDecodeCbor = [](const SharedBytes& bytes) { decode_cbor(bytes.view); };

// Bytes of hexadecimal digits.
std::string hex(std::string_view digits) {
  std::string result;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    result += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return result;
}

}  // namespace

TEST_CASE("CBOR of cbor2 is the same tree as its JSON", "[media][data]") {
  CHECK(is_same(cbor(stored_part(vectors::kTreeCbor)),
                decode_json(as_bytes(stored_part(vectors::kTreeJson)))));
}

TEST_CASE("CBOR gives bytes of every length", "[media][data]") {
  HeapBufferPool memory;
  const SharedBytes encoded =
      expand_gzip(as_bytes(stored_part(vectors::kExtremesCbor)), DecodeLimits(), memory);
  const List list = std::get<List>(cbor(encoded.text()).base());
  CHECK(std::get<double>(list.at(0).base()) == 3.4028234663852886e38);
  CHECK(std::get<SharedBytes>(list.at(1).base()).text() == std::string_view("\x00\xff", 2));
  CHECK(std::get<SharedBytes>(list.at(2).base()).text() == std::string(300, 'z'));
  CHECK(std::get<SharedBytes>(list.at(3).base()).text() == std::string(70000, 'w'));
}

TEST_CASE("the examples of RFC 8949 give their values", "[media][data]") {
  const std::pair<std::string_view, std::string_view> examples[] = {
      // appendix A
      {"00", "0"},
      {"17", "23"},
      {"1818", "24"},
      {"1903e8", "1000"},
      {"1a000f4240", "1000000"},
      {"1b000000e8d4a51000", "1000000000000"},
      {"20", "-1"},
      {"3863", "-100"},
      {"3903e7", "-1000"},
      {"f90000", "0.0"},
      {"f93c00", "1.0"},
      {"fb3ff199999999999a", "1.1"},
      {"f97bff", "65504.0"},
      {"fa47c35000", "100000.0"},
      {"fa7f7fffff", "3.4028234663852886e+38"},
      {"f90001", "5.960464477539063e-8"},
      {"f90400", "0.00006103515625"},
      {"f9c400", "-4.0"},
      {"f4", "false"},
      {"f5", "true"},
      {"f6", "null"},
      {"f7", "null"},
      {"c074323031332d30332d32315432303a30343a30305a", "\"2013-03-21T20:04:00Z\""},
      {"c11a514b67b0", "1363896240"},
      {"d82076687474703a2f2f7777772e6578616d706c652e636f6d", "\"http://www.example.com\""},
      {"62c3bc", "\"\\u00fc\""},
      {"8301820203820405", "[1, [2, 3], [4, 5]]"},
      {"a26161016162820203", R"({"a": 1, "b": [2, 3]})"},
      {"7f657374726561646d696e67ff", "\"streaming\""},
      {"9f018202039f0405ffff", "[1, [2, 3], [4, 5]]"},
      {"bf61610161629f0203ffff", R"({"a": 1, "b": [2, 3]})"},
      {"826161bf61626163ff", R"(["a", {"b": "c"}])"},
      {"9fff", "[]"},
      {"bfff", "{}"},
  };
  for (const auto& [encoded, json] : examples) {
    INFO(encoded);
    CHECK(is_same(cbor(hex(encoded)), decode_json(as_bytes(json))));
  }
  CHECK(std::get<double>(cbor(hex("f97c00")).base()) == INFINITY);
  CHECK(std::get<double>(cbor(hex("f9fc00")).base()) == -INFINITY);
  CHECK(std::isnan(std::get<double>(cbor(hex("f97e00")).base())));
  CHECK(std::get<SharedBytes>(cbor(hex("5f42010243030405ff")).base()).text() == "\1\2\3\4\5");
}

TEST_CASE("tags of CBOR are ignored, before names too", "[media][data]") {
  const Mapping date = std::get<Mapping>(cbor(stored_part(vectors::kDateCbor)).base());
  CHECK(std::get<std::string>(date.at(0).second.base()) == "2024-01-02T03:04:05Z");
  CHECK(std::get<SharedBytes>(date.at(1).second.base()).size() == 9);  // 2^70
  CHECK(is_same(cbor(hex("a1d820616101")), Mapping{{"a", std::int64_t{1}}}));
  CHECK(is_same(cbor(std::string(10'000'000, '\xC0') + '\x01'), std::int64_t{1}));
}

TEST_CASE("CBOR that a Value cannot hold is refused with its place", "[media][data]") {
  CHECK_THAT(refusal(kDecodeCbor, hex("82f61bffffffffffffffff"), ErrorCode::kUnsupported),
             Catch::Contains("18446744073709551615 at byte 2"));
  CHECK(std::get<std::int64_t>(cbor(hex("3b7fffffffffffffff")).base()) == INT64_MIN);
  CHECK_THAT(refusal(kDecodeCbor, hex("3b8000000000000000"), ErrorCode::kUnsupported),
             Catch::Contains("-1 - 9223372036854775808"));
  CHECK_THAT(refusal(kDecodeCbor, hex("a20102"), ErrorCode::kCorruptData),
             Catch::Contains("truncated"));
  CHECK_THAT(refusal(kDecodeCbor, hex("a10102"), ErrorCode::kUnsupported),
             Catch::Contains("byte 1") && Catch::Contains("names as text"));
  CHECK_THAT(refusal(kDecodeCbor, hex("f0"), ErrorCode::kUnsupported), Catch::Contains("value 16"));
  CHECK(outcome_of(kDecodeCbor, hex("f8ff")) == "unsupported");
}

TEST_CASE("damaged CBOR is refused with its place", "[media][data]") {
  for (const std::string_view text :
       {"1c", "1f", "3f", "df00", "ff", "fc", "62c328", "5f00ff", "5f6161ff", "5f5f4101ffff",
        "5fc04101ff", "7f4161ff", "7f61c3ff", "9f01", "bf6161ff", "81", "0000"}) {
    INFO(text);
    CHECK(outcome_of(kDecodeCbor, hex(text)) == "corrupt_data");
  }
  CHECK_THAT(refusal(kDecodeCbor, hex("826161ff"), ErrorCode::kCorruptData),
             Catch::Contains("at byte 3, found a break"));
  const std::string tree = stored_part(vectors::kTreeCbor);
  CHECK(outcomes_of_cuts(kDecodeCbor, tree) == std::set<std::string>{"corrupt_data"});
  CHECK(outcomes_of_flips(kDecodeCbor, tree).count("internal") == 0);
}

TEST_CASE("CBOR takes no memory for lengths that are only declared", "[media][data]") {
  for (const std::string_view text :
       {"9bffffffffffffffff", "bb7fffffffffffffff", "bbffffffffffffffff", "5bffffffffffffffff",
        "7bffffffffffffffff", "5f5bffffffffffffffff", "9affffffff"}) {
    INFO(text);
    CHECK(outcome_of(kDecodeCbor, hex(text)) == "corrupt_data");
  }
  const DecodeLimits limits{.max_bytes = 1000};
  const auto decode = [&](const SharedBytes& bytes) { decode_cbor(bytes.view, limits); };
  CHECK(outcome_of(decode, hex("81f6")) == "value");
  CHECK(outcome_of(decode, hex("9840") + std::string(64, '\x01')) == "resource_exhausted");
}

TEST_CASE("CBOR deeper than the limit is refused", "[media][data]") {
  const DecodeLimits limits{.max_depth = 2};
  const auto decode = [&](const SharedBytes& bytes) { decode_cbor(bytes.view, limits); };
  CHECK(outcome_of(decode, hex("8181f6")) == "value");
  CHECK_THAT(refusal(decode, hex("9fa1617881f6ff"), ErrorCode::kResourceExhausted),
             Catch::Contains("byte 4"));
  for (const char code : {'\x81', '\x9F', '\x5F', '\x7F'}) {
    CAPTURE(code);
    CHECK(outcome_of(kDecodeCbor, std::string(10'000'000, code)) != "value");
  }
}
