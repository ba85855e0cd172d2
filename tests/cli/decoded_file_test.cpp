#include "cli/decoded_file.h"

#include <cstdint>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using energon::BigInteger;
using energon::List;
using energon::Mapping;
using energon::Null;
using energon::Tuple;
using energon::Value;
using energon::cli::decoded_file;

TEST_CASE("values as JSON: tuples are lists, integers of any size are numbers", "[cli][json]") {
  const Value value = Mapping{{"tuple", Tuple{{std::int64_t{1}, std::string("a \"b\"\n")}}},
                              {"empty", List{Tuple{}, Mapping{}, List{}}},
                              {"large", BigInteger("-1180591620717411303424")},
                              {"text", std::string("-1180591620717411303424")},
                              {"rest", List{Null(), true, 0.5}}};
  CHECK(decoded_file("x.json", value) == R"({
  "tuple": [
    1,
    "a \"b\"\n"
  ],
  "empty": [
    [],
    {},
    []
  ],
  "large": -1180591620717411303424,
  "text": "-1180591620717411303424",
  "rest": [
    null,
    true,
    0.5
  ]
}
)");
  CHECK(decoded_file("x.json", BigInteger("36893488147419103232")) == "36893488147419103232\n");
}

TEST_CASE("values as JSON are written as the library writes them", "[cli][json]") {
  const Value value =
      Mapping{{"b\x01", List{Mapping{{"x", std::int64_t{-5}}, {"y", List{std::int64_t{1}}}}}},
              {"a", std::string("\xff caf\xc3\xa9")},
              {"b\x01", std::string("the last one of a name")}};
  const auto json =
      nlohmann::ordered_json{{"b\x01", "the last one of a name"}, {"a", "\xff caf\xc3\xa9"}};
  CHECK(decoded_file("x.json", value) ==
        json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}
