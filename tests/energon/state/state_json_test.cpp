#include "energon/state/state_json.h"

#include <functional>
#include <utility>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/json.h"
#include "tests/support/error_of.h"

using energon::Error;
using energon::ErrorCode;
using energon::State;
using energon::testing::error_of;
using Json = nlohmann::ordered_json;

namespace {

State json_example() {
  return {"Outer",
          {{"count", std::int64_t{-3}},
           {"rng", std::string("\0\1\2", 3)},
           {"name", std::string("plain \"text\"")},
           {"none", std::string()}},
          {{"Inner",
            {{"list", std::vector<std::int64_t>{INT64_MIN, 0, INT64_MAX}},
             {"empty", std::vector<std::int64_t>{}}},
            {}},
           {"Last", {}, {}}}};
}

}  // namespace

TEST_CASE("base64 of RFC 4648, and back", "[energon][base64]") {
  for (const auto& [bytes, text] : std::initializer_list<std::pair<std::string, std::string>>{
           {"", ""},
           {"f", "Zg=="},
           {"fo", "Zm8="},
           {"foo", "Zm9v"},
           {"foob", "Zm9vYg=="},
           {"fooba", "Zm9vYmE="},
           {"foobar", "Zm9vYmFy"},
           {std::string("\0\xff\xfe", 3), "AP/+"}}) {
    CAPTURE(text);
    CHECK(energon::to_base64(bytes) == text);
    CHECK(energon::from_base64(text) == bytes);
  }
  for (const char* wrong : {"Z", "Zg", "Zg=", "Zg==Zg==", "Zh==", "Zm9",
                            "Zm9=", "Z===", "====", "Zm 9", "Zm9v\n", "Zm-_"}) {
    CAPTURE(wrong);
    CHECK(energon::from_base64(wrong) == std::nullopt);
  }
}

TEST_CASE("a state survives a round trip through its JSON form, also as text", "[energon][state]") {
  const Json json = energon::state_to_json(json_example());
  CHECK(json.dump() ==
        R"({"type":"Outer","fields":{"count":-3,"rng":{"base64":"AAEC"},)"
        R"("name":{"text":"plain \"text\""},"none":{"text":""}},"inner":[)"
        R"({"type":"Inner","fields":{"list":[-9223372036854775808,0,9223372036854775807],)"
        R"("empty":[]}},{"type":"Last","fields":{}}]})");
  CHECK(energon::state_from_json(json) == json_example());
  CHECK(energon::state_from_json(Json::parse(json.dump())) == json_example());
}

TEST_CASE("JSON that is not a state is refused with the path", "[energon][state]") {
  const auto refused = [](const std::function<void(Json&)>& damage) -> std::string {
    Json json = energon::state_to_json(json_example());
    damage(json);
    try {
      energon::state_from_json(json);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kCorruptData);
      return error.what();
    }
    return "accepted";
  };
  CHECK(refused([](Json& json) { json = nullptr; }) == "state: expected an object, found null");
  CHECK_THAT(refused([](Json& json) { json.erase("type"); }),
             Catch::StartsWith("state: expected a member 'type'"));
  CHECK_THAT(refused([](Json& json) { json["extra"] = 1; }),
             Catch::StartsWith("state: unknown member 'extra'"));
  CHECK(refused([](Json& json) { json["fields"]["count"] = 1.5; }) ==
        "state.fields.count: expected a 64-bit integer, found 1.5");
  CHECK(refused([](Json& json) { json["fields"]["count"] = std::uint64_t{1} << 63; }) ==
        "state.fields.count: expected a 64-bit integer, found 9223372036854775808");
  CHECK(refused([](Json& json) { json["fields"]["rng"]["base64"] = "AAE"; }) ==
        "state.fields.rng.base64: expected base64, found \"AAE\"");
  CHECK_THAT(refused([](Json& json) { json["fields"]["rng"]["text"] = "a"; }),
             Catch::StartsWith("state.fields.rng: expected either 'text' or 'base64'"));
  CHECK_THAT(refused([](Json& json) { json["fields"]["rng"] = Json::object(); }),
             Catch::StartsWith("state.fields.rng: expected either 'text' or 'base64'"));
  CHECK(refused([](Json& json) { json["inner"][0]["fields"]["list"][1] = "0"; }) ==
        "state.inner[0].fields.list[1]: expected a 64-bit integer, found \"0\"");
  CHECK(refused([](Json& json) { json["inner"] = 1; }) == "state.inner: expected a list, found 1");
  CHECK_THAT(refused([](Json& json) {
               Json deep = json;
               for (int i = 0; i < 100; ++i) {
                 deep = {{"type", "Stage"}, {"fields", Json::object()}, {"inner", {deep}}};
               }
               json = deep;
             }),
             Catch::Contains("too deeply nested"));
}

TEST_CASE("endlessly nested JSON is refused before anything recurses", "[energon][state]") {
  std::string text;
  for (int i = 0; i < 100'000; ++i) {
    text += R"({"inner":[)";
  }
  text += "0";
  for (int i = 0; i < 100'000; ++i) {
    text += "]}";
  }
  const Json deep = Json::parse(text);
  CHECK(error_of([&] { energon::state_from_json(deep); }, ErrorCode::kCorruptData) ==
        "state: too deeply nested");
}

TEST_CASE("an error shows scalars, the start of long strings, and the size of lists and objects",
          "[energon][state]") {
  const auto shown = [](const Json& json) {
    const std::string text =
        error_of([&] { energon::JsonReader(json, "x").boolean(); }, ErrorCode::kCorruptData);
    return text.substr(text.find(", found ") + 8);
  };
  CHECK(shown(1.5) == "1.5");
  CHECK(shown("a\n") == R"("a\n")");
  CHECK(shown(std::string(81, 'a')) == fmt::format("\"{}\" …", std::string(80, 'a')));
  CHECK(shown(Json::array({1, 2})) == "a list of 2");
  CHECK(shown({{"a", 1}}) == "an object of 1 members");
}

TEST_CASE("a state that JSON cannot represent is unsupported, not changed", "[energon][state]") {
  const auto code_of = [](const State& state) {
    try {
      energon::state_to_json(state);
    } catch (const Error& error) {
      return std::optional(error.code());
    }
    return std::optional<ErrorCode>();
  };
  CHECK(code_of({"T\xff", {}, {}}) == ErrorCode::kUnsupported);
  CHECK(code_of({"T", {{"n\n", std::int64_t{1}}}, {}}) == ErrorCode::kUnsupported);
  CHECK(code_of({"T", {{"n", std::int64_t{1}}, {"n", std::int64_t{2}}}, {}}) ==
        ErrorCode::kUnsupported);
}
