#include "energon/state/state.h"

#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/sample/sample_ref.h"
#include "energon/state/savable.h"
#include "io/error.h"

using energon::SampleRef;
using energon::State;

namespace {

State example() {
  return {"Outer",
          {{"count", std::int64_t{-3}}, {"rng", std::string("\0\1\2", 3)}},
          {{"Inner",
            {{"list", std::vector<std::int64_t>{1, 2, 3}}, {"none", std::vector<std::int64_t>{}}},
            {}}}};
}

}  // namespace

TEST_CASE("a state survives a round trip through its bytes", "[energon][state]") {
  CHECK(energon::decode_state(energon::encode_state(example())) == example());
}

TEST_CASE("a damaged state is refused or decodes to another state, never crashes",
          "[energon][state]") {
  const std::string bytes = energon::encode_state(example());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    CHECK_THROWS_AS(energon::decode_state(bytes.substr(0, length)), energon::Error);
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    CAPTURE(bit);
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    try {
      const bool same = energon::decode_state(flipped) == example();
      CHECK_FALSE(same);
    } catch (const energon::Error& error) {
      CHECK(error.code() == energon::ErrorCode::kCorruptData);
    }
  }
}

TEST_CASE("fields are found by name and kind", "[energon][state]") {
  const State state = example();
  CHECK(state.integer("count") == -3);
  CHECK(state.bytes("rng").size() == 3);
  CHECK_THROWS_AS(state.integer("rng"), energon::Error);
  CHECK_THROWS_AS(state.integer("absent"), energon::Error);
}

TEST_CASE("all differences of shape are listed", "[energon][state]") {
  State other = example();
  other.fields[0].second = std::string("text");
  other.fields[1].first = "renamed";
  other.children[0].type = "Stranger";
  std::vector<std::string> differences;
  energon::compare_shapes(other, example(), "", differences);
  CHECK(differences ==
        std::vector<std::string>{"Outer: field 'count' is bytes, expected an integer",
                                 "Outer: field 'rng' is missing", "Outer: unknown field 'renamed'",
                                 "Outer/Inner: found the state of a Stranger"});
}

TEST_CASE("all differences of configurations are listed with their paths", "[energon][savable]") {
  const auto config = energon::Config::parse(R"({"a": 1, "b": {"c": [1, 2]}, "d": 0})");
  const auto expected = energon::Config::parse(R"({"a": 2, "b": {"c": [1, 3]}, "e": 0})");
  std::vector<std::string> differences;
  energon::compare_configs(config, expected, "", differences);
  CHECK(differences == std::vector<std::string>{"config.a: 1, expected 2",
                                                "config.b.c[1]: 2, expected 3",
                                                "config.e: not set, expected 0",
                                                "config.d: 0, expected it to be unset"});
}

TEST_CASE("a different stage is one difference, not one for each of its settings",
          "[energon][savable]") {
  const auto config = energon::Config::parse(R"({"type": "Repeat", "repetitions": 2})");
  const auto expected = energon::Config::parse(R"({"type": "ShuffleBuffer", "size": 7})");
  std::vector<std::string> differences;
  energon::compare_configs(config, expected, "pipeline", differences);
  CHECK(differences == std::vector<std::string>{"pipeline: a Repeat, expected a ShuffleBuffer"});
}

namespace {

std::string pack(const std::vector<SampleRef>& refs) {
  energon::SampleRefPacker packer;
  packer.measure(refs);
  packer.add(refs);
  return packer.take();
}

}  // namespace

TEST_CASE("lists of references are packed into the fewest bits", "[energon][state]") {
  const SampleRef last{.index = INT64_MAX, .leaf = UINT32_MAX, .repetition = UINT32_MAX};
  const std::vector<std::vector<SampleRef>> lists = {
      {},
      {{.index = 0}},
      {last},
      {{.index = 255}, {.index = 0}},
      {{.index = 1256, .leaf = 1, .repetition = 9}, {.index = 1007, .leaf = 2, .repetition = 3}},
      {last, {.index = 1}},
      std::vector<SampleRef>(9, {.index = 7}),
  };
  const std::vector<std::size_t> bits_each = {0, 0, 0, 8, 8 + 2 + 3, 63 + 32 + 32, 0};
  for (std::size_t i = 0; i < lists.size(); ++i) {
    INFO(i);
    const std::string packed = pack(lists[i]);
    CHECK(packed.size() == 36 + (lists[i].size() * bits_each[i] + 63) / 64 * 8);
    CHECK(energon::unpack_sample_refs(packed, lists[i].size()) == lists[i]);
    if (!lists[i].empty()) {
      CHECK_THROWS_AS(energon::unpack_sample_refs(packed, lists[i].size() - 1), energon::Error);
    }
    for (std::size_t size = 0; size < packed.size(); ++size) {
      CHECK_THROWS_AS(energon::unpack_sample_refs(packed.substr(0, size), 1000), energon::Error);
    }
  }
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<SampleRef> refs(random() % 200);
    const auto width = 1 + random() % 62;
    for (SampleRef& ref : refs) {
      const std::uint64_t number = (std::uint64_t{random()} << 32U) | random();
      ref = {static_cast<std::int64_t>(number >> (64 - width)),
             static_cast<std::uint32_t>(random() >> (width / 2)),
             static_cast<std::uint32_t>(random() >> (31 - width / 2))};
    }
    REQUIRE(energon::unpack_sample_refs(pack(refs), 200) == refs);
  }
}

TEST_CASE("an invalid list of references is refused before memory is allocated",
          "[energon][state]") {
  CHECK_THROWS_WITH(energon::unpack_sample_refs(std::string(11, '\0'), 1000),
                    Catch::Contains("form 0, expected 16"));
  // A few bytes that encode sample 0 of leaf 0 2^28 times: 4 GiB.
  std::string huge = pack({{.index = 0}});
  huge[4] = '\0';
  huge[7] = '\x10';
  CHECK_THROWS_WITH(energon::unpack_sample_refs(huge, 1000),
                    Catch::Contains("268435456 references, expected at most 1000"));
  std::string wide = pack({{.index = 0}});
  wide[2] = '\x21';
  CHECK_THROWS_WITH(energon::unpack_sample_refs(wide, 1000), Catch::Contains("33 and 0 bits"));
  std::string beyond = pack({{.index = 0}, {.index = 1}});
  beyond.replace(12, 8, std::string(7, '\xff') + '\x7f');  // from INT64_MAX on
  CHECK_THROWS_WITH(energon::unpack_sample_refs(beyond, 1000), Catch::Contains("out of range"));
}

TEST_CASE("a duplicate field is a difference", "[energon][state]") {
  const State expected{"Leaf", {{"position", std::int64_t{1}}}, {}};
  const State twice{"Leaf", {{"position", std::int64_t{1}}, {"position", std::int64_t{2}}}, {}};
  std::vector<std::string> differences;
  energon::compare_shapes(twice, expected, "", differences);
  CHECK(differences == std::vector<std::string>{"Leaf: 2 fields, expected 1"});
}
