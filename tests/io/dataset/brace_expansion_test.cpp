#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/dataset/brace_pattern.h"
#include "io/error.h"
#include "tests/io/shards.h"

using energon::ErrorCode;
using energon::Escapes;
using energon::expand_braces;
using energon::testing::error_of;
using Names = std::vector<std::string>;

TEST_CASE("braces expand as in bash", "[io][formats][brace]") {
  const std::vector<std::pair<std::string, Names>> table = {
      {"plain", {"plain"}},
      {"", {""}},
      {"a{b,c}d", {"abd", "acd"}},
      {"{a,b}{1..2}", {"a1", "a2", "b1", "b2"}},
      {"{0..3}", {"0", "1", "2", "3"}},
      {"{3..0}", {"3", "2", "1", "0"}},
      {"{-1..1}", {"-1", "0", "1"}},
      {"{08..11}", {"08", "09", "10", "11"}},
      {"{8..011}", {"008", "009", "010", "011"}},
      {"{-01..1}", {"-01", "000", "001"}},
      {"{0..10..5}", {"0", "5", "10"}},
      {"{10..0..-5}", {"10", "5", "0"}},
      {"{0..4..3}", {"0", "3"}},
      {"{0..1..0}", {"0", "1"}},
      {"{a..c}", {"a", "b", "c"}},
      {"{c..a}", {"c", "b", "a"}},
      {"{Y..b}", {"Y", "Z", "a", "b"}},
      {"{a,{b,c}d}", {"a", "bd", "cd"}},
      {"{a{1..2},b}", {"a1", "a2", "b"}},
      {"{,x}", {"", "x"}},
      {"{x}", {"{x}"}},
      {"{}", {"{}"}},
      {"{{a,b}}", {"{a}", "{b}"}},
      {"a,b", {"a,b"}},
      {"{1..}", {"{1..}"}},
      {"{1..a}", {"{1..a}"}},
      {"\\{a,b\\}", {"{a,b}"}},
      {"{a\\,b,c}", {"a,b", "c"}},
      {"end\\", {"end\\"}},
  };
  for (const auto& [pattern, expected] : table) {
    CAPTURE(pattern);
    CHECK(expand_braces(pattern) == expected);
  }
}

TEST_CASE("escapes are kept for regular expressions", "[io][formats][brace]") {
  CHECK(expand_braces("\\d{a,b}\\.tar", {.escapes = Escapes::kKeep}) ==
        Names{"\\da\\.tar", "\\db\\.tar"});
}

TEST_CASE("unbalanced braces are an error with their position", "[io][formats][brace]") {
  for (const std::string pattern : {"{a,b", "a}", "{a,{b}", "}{"}) {
    CAPTURE(pattern);
    CHECK(error_of([&] { expand_braces(pattern); }).first == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("a brace bomb is refused before it is expanded", "[io][formats][brace]") {
  std::string product;
  for (int i = 0; i < 30; ++i) {
    product += "{0..999999}";
  }
  for (const std::string& pattern :
       {std::string("{0..999999999}"), std::string("{0..999999999999999999}"),
        std::string("{-999999999999999999..999999999999999999}"), product}) {
    CAPTURE(pattern);
    CHECK(error_of([&] { expand_braces(pattern); }).first == ErrorCode::kResourceExhausted);
  }
  CHECK(error_of([] { expand_braces("{1..9999999999999999999}"); }).first ==
        ErrorCode::kInvalidArgument);
  CHECK(error_of([] { expand_braces(std::string(100'000, '{')); }).first ==
        ErrorCode::kInvalidArgument);
  CHECK(error_of([] { expand_braces("{0..5}", {.max_results = 5}); }).first ==
        ErrorCode::kResourceExhausted);
}
