#include <cstring>
#include <random>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

#include "energon/order/rng.h"
#include "io/error.h"
#include "tests/support/error_of.h"

using energon::ErrorCode;
using energon::Mt19937;
using energon::testing::error_of;

namespace {

constexpr std::uint32_t kSeed = 273211461;  // of worker 0 without offset

// The position and the words of the standard's generator, as we save them.
std::string words_of(const std::mt19937& standard) {
  std::stringstream stream;
  stream << standard;
  std::vector<std::uint32_t> words(625);
  for (std::size_t i = 1; i < words.size(); ++i) {
    stream >> words[i];
  }
  stream >> words[0];
  return {reinterpret_cast<const char*>(words.data()), 4 * words.size()};
}

std::string refused(const std::string& state) {
  Mt19937 generator(kSeed);
  generator();
  const std::string message = error_of([&] { generator.restore(state); }, ErrorCode::kMismatch);
  CHECK(generator.save() == std::to_string(kSeed) + " 1");  // unchanged
  return message;
}

}  // namespace

TEST_CASE("a generator is saved as its seed and its draws", "[energon][rng]") {
  Mt19937 generator(kSeed);
  CHECK(generator.save() == "273211461 0");
  for (int i = 0; i < 1300; ++i) {
    CAPTURE(i);
    generator();
    REQUIRE(generator.save() == "273211461 " + std::to_string(i + 1));
  }
}

TEST_CASE("draws are repeated exactly, at the edges of blocks too", "[energon][rng]") {
  for (const std::uint64_t draws :
       {0UL, 1UL, 623UL, 624UL, 625UL, 1247UL, 1248UL, 1249UL, 99'999UL, 624UL * 1680,
        Mt19937::kMostRepeated - 1, Mt19937::kMostRepeated}) {
    INFO(draws);
    Mt19937 resumed(1);
    resumed.restore("5489 " + std::to_string(draws));
    CHECK(resumed.save() == "5489 " + std::to_string(draws));
    Mt19937 copy = resumed;
    std::mt19937 standard(5489);
    standard.discard(draws);
    for (int i = 0; i < 1300; ++i) {
      const std::uint32_t expected = standard();
      REQUIRE(resumed() == expected);
      REQUIRE(copy() == expected);
    }
  }
}

TEST_CASE("after very many draws, the words are saved", "[energon][rng]") {
  Mt19937 generator(kSeed);
  std::mt19937 standard(kSeed);
  for (std::uint64_t i = 0; i < Mt19937::kMostRepeated; ++i) {
    generator();
  }
  standard.discard(Mt19937::kMostRepeated);
  CHECK(generator.save() == "273211461 1048576");
  CHECK(generator() == standard());
  CHECK((generator.save() == words_of(standard)));
  CHECK((generator.position().save() == words_of(standard)));
  Mt19937 resumed(1);
  resumed.restore(generator.save());
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    REQUIRE(resumed() == standard());
  }
  CHECK((resumed.save() == words_of(standard)));  // the seed is not known
}

TEST_CASE("a generator continues from its words", "[energon][rng]") {
  for (const int draws : {0, 1, 623, 624, 625, 5000}) {
    CAPTURE(draws);
    std::mt19937 standard(7);
    standard.discard(static_cast<unsigned long long>(draws));
    Mt19937 resumed(1);
    resumed.restore(words_of(standard));
    for (int i = 0; i < 1300; ++i) {
      CAPTURE(i);
      REQUIRE(resumed() == standard());
    }
  }
}

TEST_CASE("position() is an equal generator", "[energon][rng]") {
  Mt19937 generator(kSeed);
  for (int i = 0; i < 1300; ++i) {
    CAPTURE(i);
    Mt19937 kept = generator.position();
    REQUIRE(kept.save() == generator.save());
    Mt19937 copy = generator;
    REQUIRE(kept() == copy());
    generator();
  }
}

TEST_CASE("an invalid generator state is refused before any draw is repeated", "[energon][rng]") {
  CHECK(refused("273211461 1048577") ==
        "generator state has 1048577 draws to repeat, expected at most 1048576");
  CHECK_THAT(refused("1 18446744073709551615"), Catch::Contains("18446744073709551615 draws"));
  for (const std::string& state :
       {std::string(), std::string("1"), std::string("1 "), std::string(" 1 2"),
        std::string("1  2"), std::string("1 2 "), std::string("1 -2"), std::string("-1 2"),
        std::string("+1 2"), std::string("1 2x"), std::string("4294967296 0"),
        std::string("1 18446744073709551616"), std::string("1,2"), std::string(2499, '\0'),
        std::string(2501, '\0')}) {
    INFO(state);
    CHECK_THAT(refused(state), Catch::Contains("expected \"<seed> <draws>\" or 2500 bytes"));
  }
  CHECK(refused(std::string(2500, '\x7f')) ==
        "generator state has position 2139062143, expected at most 624");
}
