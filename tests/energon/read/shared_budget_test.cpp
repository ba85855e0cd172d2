#include <sys/resource.h>

#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/read/leaf_readers.h"
#include "tests/support/child_runner.h"

using energon::SharedBudget;
using energon::ValueCache;

namespace {

std::vector<std::size_t> kept(ValueCache<std::string>& values, std::size_t count) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    // A look-up is a use, so all have the same time afterwards.
    if (values.find(i) != nullptr) {
      numbers.push_back(i);
    }
  }
  return numbers;
}

void keep(ValueCache<std::string>& values, std::size_t number) {
  values.budget().advance();
  values.make_room(1);
  values.keep(number, 1, std::to_string(number));
}

}  // namespace

TEST_CASE("the least recently used values of all holders are dropped", "[energon][budget]") {
  const auto budget = std::make_shared<SharedBudget>(3);
  ValueCache<std::string> one(budget, 10);
  ValueCache<std::string> two(budget, 10);
  keep(one, 0);
  keep(two, 0);
  keep(one, 1);
  budget->advance();
  REQUIRE(one.find(0) != nullptr);
  keep(two, 1);  // the place of two's 0
  CHECK(kept(one, 10) == std::vector<std::size_t>{0, 1});
  CHECK(kept(two, 10) == std::vector<std::size_t>{1});
  CHECK(budget->held() == 3);
  CHECK(budget->drops() == 1);
}

TEST_CASE("items used at the current time are kept, whatever the limit", "[energon][budget]") {
  const auto budget = std::make_shared<SharedBudget>(2);
  ValueCache<std::string> values(budget, 10);
  for (std::size_t i = 0; i < 5; ++i) {
    values.make_room(1);
    values.keep(i, 1, "x");
  }
  CHECK(kept(values, 10).size() == 5);
  keep(values, 5);
  CHECK(values.find(5) != nullptr);
  CHECK(budget->held() <= 2);
}

TEST_CASE("a holder with its own bound drops its own values", "[energon][budget]") {
  const auto budget = std::make_shared<SharedBudget>(100);
  ValueCache<std::string> other(budget, 10);
  keep(other, 7);
  ValueCache<std::string> values(budget, 10, 2);
  CHECK(values.capacity() == 2);
  for (std::size_t i = 0; i < 5; ++i) {
    keep(values, i);
  }
  CHECK(kept(values, 10) == std::vector<std::size_t>{3, 4});
  CHECK(kept(other, 10) == std::vector<std::size_t>{7});
}

TEST_CASE("a budget grows once before anything is dropped, and shrinks to what the system grants",
          "[energon][budget]") {
  int asked = 0;
  const auto budget = std::make_shared<SharedBudget>(2, [&asked] {
    ++asked;
    return std::uint64_t{4};
  });
  ValueCache<std::string> values(budget, 10);
  for (std::size_t i = 0; i < 6; ++i) {
    keep(values, i);
  }
  CHECK(asked == 1);
  CHECK(budget->limit() == 4);
  budget->advance();
  CHECK(budget->shrink());
  CHECK(budget->limit() == 3);
  CHECK(budget->held() == 3);
  CHECK(budget->shrink());
  CHECK(budget->shrink());
  CHECK(budget->shrink());
  CHECK_FALSE(budget->shrink());
  CHECK(budget->limit() == 1);
}

TEST_CASE("a limit that was lowered rises again, unless the system refuses again",
          "[energon][budget]") {
  constexpr std::size_t kCount = 1000;
  const auto budget = std::make_shared<SharedBudget>(200, [] { return std::uint64_t{400}; });
  ValueCache<std::string> values(budget, kCount);
  std::size_t next = 0;
  const auto keep_next = [&] {
    next = (next + 1) % kCount;
    if (values.peek(next) == nullptr) {
      keep(values, next);
    }
  };
  for (int i = 0; i < 500; ++i) {
    keep_next();
  }
  REQUIRE(budget->limit() == 400);
  while (budget->held() > 50) {  // others take all descriptors for a moment
    budget->advance();
    REQUIRE(budget->shrink());
  }
  CHECK(budget->limit() <= 50);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {  // they still have the descriptors beyond 100
    keep_next();
    if (budget->held() > 100) {
      ++refused;
      budget->advance();
      budget->shrink();
    }
  }
  CHECK(budget->held() > 80);
  CHECK(refused < 40);
  for (int i = 0; i < 5000; ++i) {
    keep_next();
  }
  CHECK(budget->limit() == 400);
  CHECK(budget->held() > 350);
}

TEST_CASE("destroyed items are no longer held", "[energon][budget]") {
  const auto budget = std::make_shared<SharedBudget>(10);
  {
    ValueCache<std::string> values(budget, 10);
    keep(values, 1);
    CHECK(budget->held() == 1);
  }
  CHECK(budget->held() == 0);
}

TEST_CASE("the limit of open files is raised when a reader needs more", "[energon][budget][fork]") {
  const auto child = energon::testing::run_in_child([] {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 2000) {
      return 77;
    }
    limit = {.rlim_cur = 100, .rlim_max = 2000};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const energon::ReadBudgets budgets;
    if (budgets.tars->limit() != 75) {  // a quarter is left to the program
      return 1;
    }
    budgets.tars->make_room(75);
    ::getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur != 100) {
      return 2;
    }
    budgets.tars->make_room(76);
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur == 2000 && budgets.tars->limit() == 1500 ? 0 : 3;
  });
  CHECK((child.exit_code == 0 || child.exit_code == 77));
}
