// The conversion of the bytes of torch's generator to our state.

#include <cstring>
#include <random>
#include <string>

#include <catch2/catch.hpp>

#include "energon/megatron/energon_leaf.h"
#include "energon/order/rng.h"
#include "io/error.h"
#include "tests/energon/megatron/energon_trees.h"
#include "tests/support/error_of.h"

namespace energon::testing {

using Catch::Contains;

namespace {

std::string refused_generator(const std::string& bytes) {
  return error_of([&] { EnergonGenerator generator(bytes); }, ErrorCode::kCorruptData);
}

std::string with_number(std::string bytes, std::size_t offset, std::int32_t number) {
  std::memcpy(bytes.data() + offset, &number, sizeof(number));
  return bytes;
}

}  // namespace

TEST_CASE("A generator of torch continues as ours at every position in its words", "[megatron]") {
  const std::uint64_t draws = GENERATE(0, 1, 2, 622, 623, 624, 625, 1248, 100'000, (1 << 20) + 5);
  const std::uint32_t seed = GENERATE(0U, 1U, 4'000'000'000U);
  CAPTURE(draws, seed);
  const EnergonGenerator generator(torch_generator(seed, draws));
  CHECK(generator.seed() == seed);
  std::mt19937 expected(seed);
  expected.discard(draws);
  Mt19937 found(0);
  found.restore(generator.state());
  bool is_equal = true;
  for (int i = 0; i < 1500; ++i) {
    is_equal = is_equal && found() == expected();
  }
  CHECK(is_equal);
}

TEST_CASE("The state of a generator is short if ours is", "[megatron]") {
  const EnergonGenerator early(torch_generator(7, 100'000));
  CHECK(early.state() == "7 100000");
  CHECK(generator_after(7, 100'000) == "7 100000");
  const EnergonGenerator late(torch_generator(7, (1 << 20) + 5));
  CHECK(late.state().size() == 2500);
}

TEST_CASE("A generator knows how many numbers it has drawn", "[megatron]") {
  const std::uint64_t draws = GENERATE(0, 1, 623, 624, 625, 5000);
  const EnergonGenerator generator(torch_generator(11, draws));
  CHECK(generator.has_drawn(draws));
  CHECK_FALSE(generator.has_drawn(draws + 1));
  CHECK_FALSE(generator.has_drawn(draws + 624));
}

TEST_CASE("Bytes that are not a generator are refused with their numbers", "[megatron]") {
  const std::string bytes = torch_generator(3, 10);
  CHECK_THAT(refused_generator(bytes.substr(0, 5055)), Contains("has 5055 bytes, expected 5056"));
  CHECK_THAT(refused_generator(""), Contains("has 0 bytes"));
  CHECK_THAT(refused_generator(with_number(bytes, 8, 614)),
             Contains("614 words left after word 10 of 624"));
  CHECK_THAT(refused_generator(with_number(bytes, 8, -1)), Contains("-1 words left"));
  CHECK_THAT(refused_generator(with_number(bytes, 16, 1'000'000)), Contains("after word 1000000"));
}

}  // namespace energon::testing
