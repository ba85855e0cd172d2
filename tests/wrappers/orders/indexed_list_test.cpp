#include <random>
#include <vector>

#include <catch2/catch.hpp>

#include "wrappers/orders/shuffle_buffer.h"

TEST_CASE("an indexed list behaves as a vector from which elements are erased",
          "[wrappers][indexed_list]") {
  std::mt19937 draw(7);
  energon::IndexedList<int> list;
  std::vector<int> expected;
  for (int i = 0; i < 20000; ++i) {
    CAPTURE(i);
    const bool grow = expected.empty() || draw() % 100 < (i / 5000 % 2 == 0 ? 75U : 25U);
    if (grow) {
      list.push_back(i);
      expected.push_back(i);
    } else {
      const std::size_t position = draw() % expected.size();
      REQUIRE(list.take(position) == expected[position]);
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(position));
    }
    REQUIRE(list.size() == expected.size());
  }
  std::vector<int> all;
  list.for_each_block(
      [&all](const std::vector<int>& block) { all.insert(all.end(), block.begin(), block.end()); });
  CHECK(all == expected);
}
