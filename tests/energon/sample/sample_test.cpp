#include "energon/sample/sample.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/error_of.h"

using energon::DType;
using energon::ErrorCode;
using energon::LazyBytes;
using energon::List;
using energon::Mapping;
using energon::Sample;
using energon::SharedBytes;
using energon::Tensor;
using energon::testing::error_of;

namespace {

class Nothing final : public energon::LazySource {
 public:
  SharedBytes get() override { return {}; }
  std::string describe() const override { return "file 'a' of nowhere"; }
};

SharedBytes bytes_of(std::string_view text) { return {energon::as_bytes(text), nullptr}; }

Sample sample() {
  Sample made;
  made.set("jpg", bytes_of("image"));
  made.set("txt", std::string("caption"));
  made.set("count", std::int64_t{3});
  made.set("share", 0.5);
  made.set("image", Tensor{DType::kFloat32, {3, 2}, {}});
  made.set("parts", List{bytes_of("one"), std::string("two")});
  made.set("nothing", energon::Null());
  made.set("valid", true);
  made.set("json", Mapping{{"width", std::int64_t{640}}});
  made.set("aux", LazyBytes(std::make_shared<Nothing>()));
  return made;
}

}  // namespace

TEST_CASE("a field is read by its type", "[sample]") {
  const Sample made = sample();
  CHECK(made.bytes("jpg").text() == "image");
  CHECK(made.text("jpg") == "image");
  CHECK(made.text("txt") == "caption");
  CHECK(made.integer("count") == 3);
  CHECK(made.number("count") == 3.0);
  CHECK(made.number("share") == 0.5);
  CHECK(made.boolean("valid"));
  CHECK(made.tensor("image").shape == std::vector<std::int64_t>{3, 2});
  CHECK(made.list("parts").size() == 2);
  CHECK(made.mapping("json").size() == 1);
  CHECK(made.text_list("parts") == std::vector<std::string_view>{"one", "two"});
  CHECK(made.find("jpg") == &made.at("jpg"));
  CHECK(made.find("png") == nullptr);

  Sample batch;
  batch.set("jpg", List{bytes_of("a"), bytes_of("bc")});
  const std::vector<SharedBytes> images = batch.bytes_list("jpg");
  REQUIRE(images.size() == 2);
  CHECK(images[1].text() == "bc");
}

TEST_CASE("a field of another type is an error that describes its value", "[sample]") {
  const Sample made = sample();
  const auto check = [](const auto& call, ErrorCode code, const std::string& text) {
    CHECK(error_of(call, code) == text);
  };
  check(
      [&] { made.bytes("png"); }, ErrorCode::kNotFound,
      "no field 'png'; available: jpg, txt, count, share, image, parts, nothing, valid, json, aux");
  check([&] { made.tensor("jpg"); }, ErrorCode::kInvalidArgument,
        "field 'jpg' is 5 bytes, expected a tensor");
  check([&] { made.bytes("txt"); }, ErrorCode::kInvalidArgument,
        "field 'txt' is a string of 7 bytes, expected bytes");
  check([&] { made.text("count"); }, ErrorCode::kInvalidArgument,
        "field 'count' is the integer 3, expected a string");
  check([&] { made.integer("share"); }, ErrorCode::kInvalidArgument,
        "field 'share' is the number 0.5, expected an integer");
  check([&] { made.number("image"); }, ErrorCode::kInvalidArgument,
        "field 'image' is float32 (3, 2), expected a number");
  check([&] { made.mapping("parts"); }, ErrorCode::kInvalidArgument,
        "field 'parts' is a list of 2, expected a mapping");
  check([&] { made.bytes_list("json"); }, ErrorCode::kInvalidArgument,
        "field 'json' is a mapping of 1, expected a list");
  check([&] { made.bytes_list("parts"); }, ErrorCode::kInvalidArgument,
        "field 'parts[1]' is a string of 3 bytes, expected bytes");
  check([&] { made.bytes("aux"); }, ErrorCode::kInvalidArgument,
        "field 'aux' is lazy bytes (file 'a' of nowhere), expected bytes; fetch them with "
        "LazyBytes::get()");
}

TEST_CASE("null and booleans are distinct kinds", "[sample]") {
  CHECK(energon::describe(energon::Null()) == "null");
  CHECK(energon::describe(energon::Value(false)) == "false");
  CHECK_THAT(error_of([] { sample().integer("valid"); }, ErrorCode::kInvalidArgument),
             Catch::Contains("field 'valid' is true, expected an integer"));
  std::vector<std::uint64_t> digests;
  for (const energon::Value& value : std::vector<energon::Value>{
           energon::Null(), true, false, std::int64_t{0}, std::int64_t{1}, std::string()}) {
    Sample one;
    one.set("x", value);
    digests.push_back(energon::digest(one));
  }
  std::ranges::sort(digests);
  CHECK(std::ranges::adjacent_find(digests) == digests.end());
}

TEST_CASE("tuples and big integers are distinct kinds", "[sample]") {
  Sample made;
  made.set("tuple", energon::Tuple{{std::int64_t{1}, std::string("two")}});
  made.set("list", List{std::int64_t{1}, std::string("two")});
  made.set("large", energon::BigInteger("1180591620717411303424"));
  CHECK(made.tuple("tuple").items.size() == 2);
  CHECK(made.big_integer("large").digits() == "1180591620717411303424");
  CHECK(describe(made.at("tuple")) == "a tuple of 2");
  CHECK(describe(made.at("large")) == "the integer 1180591620717411303424");
  CHECK(describe(energon::BigInteger("-1" + std::string(50, '0'))) == "an integer of 51 digits");
  CHECK_THAT(error_of([&] { made.list("tuple"); }, ErrorCode::kInvalidArgument),
             Catch::Contains("field 'tuple' is a tuple of 2, expected a list"));
  CHECK_THAT(error_of([&] { made.integer("large"); }, ErrorCode::kInvalidArgument),
             Catch::Contains("is the integer 1180591620717411303424"));
  CHECK(payload_bytes(made) == 2 * (8 + 3) + 22);
  const auto digest_of = [](energon::Value value) {
    Sample one;
    one.set("x", std::move(value));
    return digest(one);
  };
  CHECK(digest_of(made.at("tuple")) != digest_of(made.at("list")));
  CHECK(digest_of(made.at("large")) != digest_of(std::string("1180591620717411303424")));
  CHECK(digest_of(energon::BigInteger("7")) != digest_of(energon::BigInteger("8")));
}

TEST_CASE("an integer has exactly one text form", "[sample]") {
  for (const char* digits : {"0", "7", "-7", "10", "18446744073709551616"}) {
    CHECK(energon::BigInteger(digits).digits() == digits);
  }
  for (const char* digits :
       {"", "-", "-0", "00", "01", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "--1"}) {
    CAPTURE(digits);
    CHECK_FALSE(energon::BigInteger::is_valid(digits));
    CHECK_THAT(error_of([&] { energon::BigInteger{digits}; }, ErrorCode::kInvalidArgument),
               Catch::Contains("is not an integer"));
  }
}

TEST_CASE("setting a field replaces it in place", "[sample]") {
  Sample made = sample();
  const std::size_t fields = made.fields.size();
  made.set("txt", std::int64_t{1});
  CHECK(made.fields.size() == fields);
  CHECK(made.fields[1].first == "txt");
  CHECK(made.integer("txt") == 1);
}
