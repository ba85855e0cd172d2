#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/dataset/brace_pattern.h"

using energon::collapse_names;
using energon::expand_braces;
using Names = std::vector<std::string>;

namespace {

Names expand_all(const Names& patterns) {
  Names result;
  for (const std::string& pattern : patterns) {
    for (std::string& name : expand_braces(pattern)) {
      result.push_back(std::move(name));
    }
  }
  return result;
}

}  // namespace

TEST_CASE("runs of numbered names become ranges", "[io][formats][brace]") {
  Names unpadded;
  for (int i = 0; i < 12; ++i) {
    unpadded.push_back(fmt::format("data-{}", i));
  }
  CHECK(collapse_names(unpadded) == Names{"data-{0..9}", "data-{10..11}"});
  CHECK(collapse_names(Names{"d/08.tar", "d/09.tar", "d/10.tar"}) == Names{"d/{08..10}.tar"});
  CHECK(collapse_names(Names{"a1b1", "a1b2", "a2b2"}) == Names{"a1b{1..2}", "a2b2"});
  CHECK(collapse_names(Names{"a1b1", "a2b2"}) == Names{"a1b1", "a2b2"});
  CHECK(collapse_names(Names{"a2", "a1"}) == Names{"a2", "a1"});
  CHECK(collapse_names(Names{"a1", "a1"}) == Names{"a1", "a1"});
  CHECK(collapse_names(Names{"x"}) == Names{"x"});
  CHECK(collapse_names(Names{}).empty());
}

TEST_CASE("collapsed names expand to the same names", "[io][formats][brace]") {
  const std::vector<Names> lists = {
      {"a-098.tar", "a-099.tar", "a-100.tar", "b/a-101.tar"},
      {"{a,b}.tar", "{0..9}.tar", "back\\slash-1", "back\\slash-2", "}{"},
      {"0", "1", "2", "9", "10"},
      {"7.8", "7.9", "8.0"},
      {"", "1", "02", "03"},
  };
  for (const Names& names : lists) {
    CAPTURE(names);
    CHECK(expand_all(collapse_names(names)) == names);
  }
}
