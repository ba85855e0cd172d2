#include <algorithm>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/checkpoint/loader_state.h"

namespace {

using energon::Turn;
using energon::Turns;

// The streams that deliver a batch, in order, until the end of the epoch. Stream i has lengths[i]
// batches.
std::vector<std::size_t> epoch(Turns& turns, const std::vector<std::int64_t>& lengths) {
  std::vector<std::size_t> order;
  while (const auto stream = turns.next()) {
    if (turns.of(*stream).count < lengths[*stream]) {
      turns.take(*stream);
      order.push_back(*stream);
    } else {
      turns.end_epoch(*stream);
    }
  }
  return order;
}

TEST_CASE("Streams take turns, and ended streams are skipped until the epoch is over",
          "[loader][turns]") {
  Turns turns(std::vector<Turn>(3), 0);
  CHECK(epoch(turns, {2, 0, 3}) == std::vector<std::size_t>{0, 2, 0, 2, 2});
  CHECK_FALSE(turns.next());
  turns.start_epoch();
  CHECK(epoch(turns, {1, 1, 0}) == std::vector<std::size_t>{0, 1});
  CHECK(turns.epoch() == 1);
}

TEST_CASE("A stream that is an epoch ahead waits for the others", "[loader][turns]") {
  Turns turns({{.epoch = 1, .count = 1}, {.epoch = 0, .count = 4}}, 0);
  CHECK(epoch(turns, {2, 6}) == std::vector<std::size_t>{1, 1});
  turns.start_epoch();
  // Stream 0 has already had a turn of this epoch.
  CHECK(epoch(turns, {3, 3}) == std::vector<std::size_t>{1, 0, 1, 0, 1});
}

TEST_CASE("The order of a subset of the streams is the order of all, restricted to the subset",
          "[loader][turns]") {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    std::vector<Turn> places(1 + random() % 9);
    std::vector<std::int64_t> lengths;
    for (Turn& place : places) {
      place = {static_cast<std::int64_t>(random() % 2), static_cast<std::int64_t>(random() % 3)};
      lengths.push_back(static_cast<std::int64_t>(random() % 6));
    }
    std::vector<std::size_t> members;
    std::vector<Turn> some;
    std::vector<std::int64_t> some_lengths;
    for (std::size_t k = random() % 3; k < places.size(); k += 3) {
      members.push_back(k);
      some.push_back(places[k]);
      some_lengths.push_back(lengths[k]);
    }
    Turns all(places, 0);
    Turns part(some, 0);
    std::vector<std::size_t> expected;
    std::vector<std::size_t> found;
    for (int pass = 0; pass < 3; ++pass) {
      for (const std::size_t stream : epoch(all, lengths)) {
        if (std::find(members.begin(), members.end(), stream) != members.end()) {
          expected.push_back(stream);
        }
      }
      for (const std::size_t stream : epoch(part, some_lengths)) {
        found.push_back(members[stream]);
      }
      all.start_epoch();
      part.start_epoch();
    }
    REQUIRE(found == expected);
  }
}

}  // namespace
