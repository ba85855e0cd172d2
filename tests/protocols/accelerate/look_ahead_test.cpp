// Drawing items ahead.

#include "protocols/accelerate/look_ahead.h"

#include <catch2/catch.hpp>

#include "energon/state/state.h"
#include "io/error.h"

using energon::LookAhead;
using energon::State;

namespace {

// Yields 0 … length - 1 and an end, repeatedly. Counts its calls.
struct Counter {
  std::int64_t length = 5;
  std::int64_t position = 0;
  std::int64_t epoch = 0;
  std::int64_t fails_at = -1;
  int saves = 0;

  std::optional<std::int64_t> next() {
    if (position == fails_at) {
      throw energon::Error(energon::ErrorCode::kCorruptData, "damaged");
    }
    if (position == length) {
      position = 0;
      ++epoch;
      return std::nullopt;
    }
    return position++;
  }
  State save_state_rank() {
    ++saves;
    return {"Counter", {{"position", position}, {"epoch", epoch}}, {}};
  }
};

State at(std::int64_t position, std::int64_t epoch) {
  return {"Counter", {{"position", position}, {"epoch", epoch}}, {}};
}

}  // namespace

TEST_CASE("the state belongs to the last delivered item, however far ahead was drawn",
          "[distributed]") {
  for (const std::size_t depth : {0, 1, 2, 3, 9}) {
    CAPTURE(depth);
    Counter source;
    LookAhead<Counter> ahead(source);
    for (int pass = 0; pass < 3; ++pass) {
      CAPTURE(pass);
      CHECK(ahead.state() == at(0, pass));
      for (std::int64_t i = 0; i < 5; ++i) {
        CAPTURE(i);
        ahead.draw(depth);
        CHECK(ahead.next() == i);
        ahead.draw(depth);
        // After the last item: the position of the end.
        CHECK(ahead.state() == (i == 4 ? at(0, pass + 1) : at(i + 1, pass)));
        CHECK(ahead.last() == (i == 4));
      }
      CHECK_FALSE(ahead.next());
      CHECK_FALSE(ahead.last());
    }
  }
}

TEST_CASE("without queries, nothing is saved or drawn ahead", "[distributed]") {
  Counter source;
  LookAhead<Counter> ahead(source);
  while (ahead.next()) {
  }
  CHECK(source.saves == 0);
  CHECK(source.position == 0);
}

TEST_CASE("a failure while drawing ahead is kept for its turn", "[distributed]") {
  Counter source;
  source.fails_at = 2;
  LookAhead<Counter> ahead(source);
  CHECK(ahead.next() == 0);
  CHECK(ahead.next() == 1);
  CHECK_FALSE(ahead.last());
  CHECK(ahead.state() == at(2, 0));
  CHECK_THROWS_AS(ahead.next(), energon::Error);
}

TEST_CASE("an end found while drawing ahead is returned once, before the next epoch",
          "[distributed]") {
  Counter source{.length = 1};
  LookAhead<Counter> ahead(source);
  for (int pass = 0; pass < 3; ++pass) {
    CAPTURE(pass);
    CHECK(ahead.next() == 0);
    CHECK(ahead.last());
    CHECK_FALSE(ahead.next());
  }
}
