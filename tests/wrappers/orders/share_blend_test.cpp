// A blend by share: IBM-15.

#include <algorithm>
#include <limits>
#include <string>

#include <catch2/catch.hpp>

#include "energon/order/sharder.h"
#include "energon/order/slice_order.h"
#include "io/error.h"
#include "tests/support/conformance.h"
#include "wrappers/orders/blend.h"
#include "wrappers/orders/repeat.h"

namespace {

using energon::Error;
using energon::Order;
using energon::ShareBlend;
using energon::SharedOrder;
using energon::testing::check_conformance;
using OrderPtr = std::unique_ptr<Order>;

OrderPtr numbered_leaf(std::uint32_t number, std::vector<std::int64_t> counts = {100}) {
  return std::make_unique<energon::SliceOrder>(
      energon::slice_bounds({.shard_counts = counts}, 0), std::vector<std::int64_t>{},
      energon::SliceOrderOptions{.seed = 1, .leaf = number});
}

OrderPtr endless(OrderPtr order) {
  return std::make_unique<energon::Repeat>(std::move(order), std::nullopt);
}

// Documents of 101 and of 51 tokens.
OrderPtr documents(double first, double second) {
  std::vector<SharedOrder> inners;
  inners.push_back({endless(numbered_leaf(0)), first, [](std::int64_t) { return 101; }});
  inners.push_back({endless(numbered_leaf(1)), second, [](std::int64_t) { return 51; }});
  return std::make_unique<ShareBlend>(std::move(inners));
}

std::string picks(Order& order, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) {
    result += std::to_string(order.next().value().leaf + 1);
  }
  return result;
}

std::string golden(const std::string& begin, const std::string& period) {
  std::string result = begin;
  while (result.size() < 24) {
    result += period;
  }
  return result.substr(0, 24);
}

TEST_CASE("IBM-15 a blend by share picks like the sampling dataset, and continues after each pick",
          "[wrappers][blend][ibm]") {
  const auto check = [](double first, double second, const std::string& expected) {
    CAPTURE(first, second);
    const OrderPtr whole = documents(first, second);
    CHECK(picks(*whole, 24) == expected);
    for (int taken = 0; taken <= 24; ++taken) {
      const OrderPtr saved = documents(first, second);
      picks(*saved, taken);
      const OrderPtr resumed = documents(first, second);
      resumed->restore_state(saved->save_state());
      CHECK(picks(*resumed, 24 - taken) == expected.substr(static_cast<std::size_t>(taken)));
    }
  };
  check(1, 1, golden("212122", "122"));
  check(2, 1, golden("", "12"));
  check(2, 3, golden("2122", "1222"));
  check(2, 5, golden("212222", "122222"));
}

TEST_CASE("a blend by share passes the conformance suite", "[wrappers][blend]") {
  check_conformance<Order>(
      []() -> OrderPtr {
        std::vector<SharedOrder> inners;
        inners.push_back({numbered_leaf(0, {7}), 2, nullptr});
        inners.push_back({numbered_leaf(1, {12}), 1, [](std::int64_t index) { return index % 3; }});
        inners.push_back({numbered_leaf(2, {0}), 1, nullptr});
        return std::make_unique<ShareBlend>(std::move(inners));
      },
      60);
}

TEST_CASE("shares count samples unless specified otherwise", "[wrappers][blend]") {
  std::vector<SharedOrder> inners;
  inners.push_back({endless(numbered_leaf(0)), 3, nullptr});
  inners.push_back({endless(numbered_leaf(1)), 1, nullptr});
  ShareBlend order(std::move(inners));
  const std::string all = picks(order, 400);
  CHECK(std::count(all.begin(), all.end(), '2') == 100);
}

TEST_CASE("impossible weights and lengths are refused", "[wrappers][blend]") {
  CHECK_THROWS_AS(ShareBlend({}), Error);
  CHECK_THROWS_WITH(documents(0, 1), Catch::Contains("weight 0 of the blend is 0"));
  CHECK_THROWS_WITH(documents(1, std::numeric_limits<double>::infinity()),
                    Catch::Contains("weight 1"));
  std::vector<SharedOrder> inners;
  inners.push_back({numbered_leaf(0), 1, [](std::int64_t) { return -5; }});
  ShareBlend order(std::move(inners));
  CHECK_THROWS_WITH(order.next(), Catch::Contains("has length -5"));
}

}  // namespace
