#include <cmath>

#include "media/data/documents.h"
#include "tests/media/data/encoded_parts.h"
#include "tests/media/data/vectors.h"

using energon::decode_json;
using energon::DecodeLimits;
using energon::ErrorCode;
using energon::List;
using energon::Mapping;
using energon::Null;
using energon::SharedBytes;
using energon::Value;
using energon::testing::is_same;
using energon::testing::outcome_of;
using energon::testing::outcomes_of_cuts;
using energon::testing::outcomes_of_flips;
using energon::testing::refusal;
using energon::testing::stored_part;

namespace {

Value json(std::string_view text) { return decode_json(energon::testing::exact_copy(text).view); }

const auto kDecodeJson = [](const SharedBytes& bytes) { decode_json(bytes.view); };

const DecodeLimits kThreeDeep{.max_depth = 3};

}  // namespace

TEST_CASE("JSON values become values of their kind", "[media][data]") {
  CHECK(std::holds_alternative<Null>(json("null").base()));
  CHECK(std::get<bool>(json(" true ").base()));
  CHECK_FALSE(std::get<bool>(json("false\n").base()));
  CHECK(std::get<std::int64_t>(json("-17").base()) == -17);
  CHECK(std::get<std::int64_t>(json("9223372036854775807").base()) == INT64_MAX);
  CHECK(std::get<std::int64_t>(json("-9223372036854775808").base()) == INT64_MIN);
  CHECK(std::get<double>(json("1.0").base()) == 1.0);
  CHECK(std::get<double>(json("25e-1").base()) == 2.5);
  CHECK(std::get<double>(json("1e30").base()) == 1e30);
  CHECK(std::get<std::string>(json(R"("a\u00e4\ud83d\ude00\n")").base()) == "aä\U0001f600\n");
  CHECK(std::get<List>(json("[]").base()).empty());
  CHECK(std::get<Mapping>(json("{}").base()).empty());
  CHECK(std::get<std::int64_t>(json("\xEF\xBB\xBF"
                                    "5")
                                   .base()) == 5);
}

TEST_CASE("JSON objects keep their order and the last of equal names", "[media][data]") {
  const Value expected = Mapping{{"z", std::int64_t{3}}, {"a", List{true, Null()}}, {"m", "x"}};
  CHECK(is_same(json(R"({"z": 1, "a": [true, null], "z": 2, "m": "x", "z": 3})"), expected));
  std::string text = "{";
  Mapping many;
  for (int i = 0; i < 200; ++i) {
    text += "\"" + std::to_string(i % 100) + "\": " + std::to_string(i) + ",";
    if (i >= 100) {
      many.emplace_back(std::to_string(i % 100), std::int64_t{i});
    }
  }
  text.back() = '}';
  CHECK(is_same(json(text), many));
}

TEST_CASE("a number that neither int64 nor double can hold is refused with its place",
          "[media][data]") {
  CHECK_THAT(refusal(kDecodeJson, "[1,\n 9223372036854775808]", ErrorCode::kUnsupported),
             Catch::Contains("9223372036854775808 at line 2, column 2 (byte 5)") &&
                 Catch::Contains("as a string"));
  CHECK_THAT(refusal(kDecodeJson, "-9223372036854775809", ErrorCode::kUnsupported),
             Catch::Contains("line 1, column 1 (byte 0)"));
  CHECK_THAT(refusal(kDecodeJson, "[123456789012345678901234567890]", ErrorCode::kUnsupported),
             Catch::Contains("(byte 1)"));
  CHECK_THAT(refusal(kDecodeJson, "[1e999]", ErrorCode::kUnsupported), Catch::Contains("1e999"));
}

TEST_CASE("text that is not JSON is refused with line, column and byte", "[media][data]") {
  CHECK_THAT(refusal(kDecodeJson, "{\"a\": 1,\n\"b\" 2}", ErrorCode::kCorruptData),
             Catch::Contains("line 2, column 5 (byte 13)"));
  CHECK_THAT(refusal(kDecodeJson, "[NaN]", ErrorCode::kCorruptData), Catch::Contains("write null"));
  CHECK_THAT(refusal(kDecodeJson, "[-Infinity]", ErrorCode::kCorruptData),
             Catch::Contains("write null"));
  for (const std::string_view text :
       {"", " ", "[1,]", "{\"a\":1,}", "{a:1}", "'a'", "01", "+1", "1.", ".5", "nul", "[1] 2",
        "\"\n\"", "\"\\x\"", "\"\\ud800\"", "\"\xFF\"", "// c\n1", "[", "{\"a\""}) {
    INFO(text);
    CHECK(outcome_of(kDecodeJson, text) == "corrupt_data");
  }
  CHECK(refusal(kDecodeJson, "\"" + std::string(100000, 'x'), ErrorCode::kCorruptData).size() <
        400);
}

TEST_CASE("zero bytes do not hide what follows them in JSON", "[media][data]") {
  CHECK_THAT(refusal(kDecodeJson, std::string_view("1\0 rubbish", 10), ErrorCode::kCorruptData),
             Catch::Contains("zero byte") && Catch::Contains("(byte 1)"));
  CHECK(outcome_of(kDecodeJson, std::string_view("1\0", 2)) == "corrupt_data");
}

TEST_CASE("JSON deeper than the limit is refused with its place", "[media][data]") {
  const auto decode = [](const SharedBytes& bytes) { decode_json(bytes.view, kThreeDeep); };
  CHECK(outcome_of(decode, R"([{"a": [1]}])") == "value");
  CHECK_THAT(refusal(decode, R"([{"a": [{}]}])", ErrorCode::kResourceExhausted),
             Catch::Contains("(byte 8)") && Catch::Contains("max_depth"));
  CHECK(outcome_of(kDecodeJson, std::string(10'000'000, '[')) == "resource_exhausted");
}

TEST_CASE("JSON that takes more memory than the limit is refused", "[media][data]") {
  const DecodeLimits limits{.max_bytes = 10000};
  const auto decode = [&](const SharedBytes& bytes) { decode_json(bytes.view, limits); };
  std::string text = "[";
  for (int i = 0; i < 500; ++i) {
    text += "1,";
  }
  text.back() = ']';
  CHECK_THAT(refusal(decode, text, ErrorCode::kResourceExhausted), Catch::Contains("max_bytes"));
  CHECK(outcome_of(decode, "[\"" + std::string(10000, 'x') + "\"]") == "resource_exhausted");
}

TEST_CASE("damaged JSON gives an Error or another value", "[media][data]") {
  const std::string text = stored_part(energon::testing::vectors::kTreeJson);
  CHECK(outcomes_of_cuts(kDecodeJson, text) == std::set<std::string>{"corrupt_data"});
  const auto flips = outcomes_of_flips(kDecodeJson, text);
  CHECK(flips.count("corrupt_data") == 1);
  CHECK(flips.count("internal") == 0);
}
