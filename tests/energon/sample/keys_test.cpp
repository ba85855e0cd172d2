#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/sample/sample.h"

namespace energon {

TEST_CASE("keys are a list of strings", "[energon][sample]") {
  Keys keys = {"a", "", "b/c"};
  CHECK(keys.size() == 3);
  CHECK(keys[0] == "a");
  CHECK(keys[1].empty());
  CHECK(keys.front() == "a");
  CHECK(keys.back() == "b/c");
  CHECK(keys.at(2) == "b/c");
  CHECK_THROWS_AS(keys.at(3), std::out_of_range);
  CHECK(keys.characters() == "ab/c");
  CHECK(keys.strings() == std::vector<std::string>{"a", "", "b/c"});
  CHECK(keys == std::vector<std::string>{"a", "", "b/c"});
  CHECK(keys != Keys{"a", "b/c", ""});
  CHECK(Keys().empty());
}

TEST_CASE("keys with the same characters but other boundaries differ", "[energon][sample]") {
  CHECK(Keys{"ab", "c"} != Keys{"a", "bc"});
  CHECK(Keys{""} != Keys());
}

TEST_CASE("keys are appended, also from the same list", "[energon][sample]") {
  Keys keys = {"0", "1", "2"};
  Keys more;
  more.append(keys, 1, 3);
  CHECK(more == Keys{"1", "2"});
  for (int i = 0; i < 6; ++i) {
    keys.append(keys);  // grows, so its memory moves
  }
  REQUIRE(keys.size() == 3 * 64);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    CAPTURE(i);
    CHECK(keys[i] == std::to_string(i % 3));
  }
  keys.push_back(keys[1]);
  CHECK(keys.back() == "1");
}

TEST_CASE("keys have random access", "[energon][sample]") {
  const Keys keys = {"b", "d", "f"};
  CHECK(std::find(keys.begin(), keys.end(), "d") - keys.begin() == 1);
  CHECK(std::binary_search(keys.begin(), keys.end(), "f"));
  CHECK(*(keys.end() - 1) == "f");
  CHECK(keys.begin()[2] == "f");
  static_assert(std::is_same_v<std::iterator_traits<Keys::const_iterator>::iterator_category,
                               std::random_access_iterator_tag>);
}

TEST_CASE("a list that is cleared keeps its memory", "[energon][sample]") {
  Keys keys = {"a key that is too long for the inside of a string"};
  const void* const memory = keys.characters().data();
  keys.clear();
  CHECK(keys.empty());
  keys.push_back("another key that is too long for the inside");
  CHECK(keys.characters().data() == memory);
}

}  // namespace energon
