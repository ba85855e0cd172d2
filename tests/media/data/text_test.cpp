#include "media/data/documents.h"
#include "tests/media/data/encoded_parts.h"

using energon::decode_integer;
using energon::decode_text;
using energon::ErrorCode;
using energon::SharedBytes;
using energon::testing::exact_copy;
using energon::testing::outcome_of;
using energon::testing::refusal;

namespace {

std::string text_of(std::string_view bytes) { return decode_text(exact_copy(bytes).view); }
std::int64_t number_of(std::string_view text) { return decode_integer(exact_copy(text).view); }

const auto kDecodeText = [](const SharedBytes& bytes) { decode_text(bytes.view); };
const auto kDecodeInteger = [](const SharedBytes& bytes) { decode_integer(bytes.view); };

}  // namespace

TEST_CASE("a text is its bytes, byte order mark and zeros included", "[media][data]") {
  for (const std::string_view text :
       {std::string_view(), std::string_view("plain"), std::string_view("eight by"),
        std::string_view("\xEF\xBB\xBFmark"), std::string_view("zero\0zero", 9),
        // The first and last characters of 2, 3 and 4 bytes, and the neighbors of the surrogates.
        std::string_view("\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF"),
        std::string_view("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF")}) {
    CAPTURE(text);
    CHECK(text_of(text) == text);
  }
}

TEST_CASE("a text that is not UTF-8 is refused with place and value", "[media][data]") {
  CHECK_THAT(refusal(kDecodeText, "12345678901\xFCx", ErrorCode::kCorruptData),
             Catch::Contains("byte 11 is 0xfc"));
  // Truncated, overlong, surrogate, above U+10FFFF, a single continuation byte.
  for (const std::string_view text :
       {"\xC3", "\xE2\x82", "\xF0\x9F\x98", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\x80",
        "abcdefgh\xE2\x28\xA1"}) {
    INFO(text);
    CHECK(outcome_of(kDecodeText, text) == "corrupt_data");
  }
}

TEST_CASE("an integer is read like Python's int()", "[media][data]") {
  CHECK(number_of("17") == 17);
  CHECK(number_of(" \t\n\v\f\r-3\r\n") == -3);
  CHECK(number_of("+0042") == 42);
  CHECK(number_of("1_000_000") == 1000000);
  CHECK(number_of("-0") == 0);
  CHECK(number_of("9223372036854775807") == INT64_MAX);
  CHECK(number_of("-9223372036854775808") == INT64_MIN);
}

TEST_CASE("text that is not an integer is refused and shown", "[media][data]") {
  for (const std::string_view text : {"", " ", "-", "+", "--1", "+-1", "- 1", "1 2", "1.0", "1e3",
                                      "0x10", "_1", "1_", "1__2", "-_1", "cat",
                                      "\xC2\xA0"
                                      "1",
                                      "\xD9\xA1"}) {
    INFO(text);
    CHECK(outcome_of(kDecodeInteger, text) == "corrupt_data");
  }
  CHECK(outcome_of(kDecodeInteger, std::string_view("1\0", 2)) == "corrupt_data");
  CHECK_THAT(refusal(kDecodeInteger, "12 cats\n", ErrorCode::kCorruptData),
             Catch::Contains("'12 cats\\x0a'"));
  CHECK(refusal(kDecodeInteger, std::string(100000, 'x'), ErrorCode::kCorruptData).size() < 200);
}

TEST_CASE("a number outside of int64 is refused", "[media][data]") {
  CHECK_THAT(refusal(kDecodeInteger, "9223372036854775808", ErrorCode::kUnsupported),
             Catch::Contains("9223372036854775808"));
  CHECK(outcome_of(kDecodeInteger, "-9223372036854775809") == "unsupported");
  CHECK(outcome_of(kDecodeInteger, std::string(100000, '9')) == "unsupported");
}
