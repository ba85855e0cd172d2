#include "energon/state/state.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/sample/sample_ref.h"
#include "energon/state/savable.h"
#include "io/error.h"

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

TEST_CASE("a state reads back from its bytes", "[energon][state]") {
  CHECK(energon::decode_state(energon::encode_state(example())) == example());
}

TEST_CASE("a damaged state is refused or is another state, never a crash", "[energon][state]") {
  const std::string bytes = energon::encode_state(example());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK_THROWS_AS(energon::decode_state(bytes.substr(0, length)), energon::Error);
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
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
                                 "Outer/Inner: the state is of a Stranger"});
}

TEST_CASE("all differences of configurations are listed with their paths", "[energon][savable]") {
  const auto config = energon::Config::parse(R"({"a": 1, "b": {"c": [1, 2]}, "d": 0})");
  const auto expected = energon::Config::parse(R"({"a": 2, "b": {"c": [1, 3]}, "e": 0})");
  std::vector<std::string> differences;
  energon::compare_configs(config, expected, "", differences);
  CHECK(differences == std::vector<std::string>{
                           "config.a: 1, expected 2", "config.b.c[1]: 2, expected 3",
                           "config.e: not set, expected 0", "config.d: 0, expected not to be set"});
}

TEST_CASE("another stage is one difference, not one for each of its settings",
          "[energon][savable]") {
  const auto config = energon::Config::parse(R"({"type": "Repeat", "repetitions": 2})");
  const auto expected = energon::Config::parse(R"({"type": "ShuffleBuffer", "size": 7})");
  std::vector<std::string> differences;
  energon::compare_configs(config, expected, "pipeline", differences);
  CHECK(differences == std::vector<std::string>{"pipeline: a Repeat, expected a ShuffleBuffer"});
}

TEST_CASE("lists of references are packed into as few bytes as they need", "[energon][state]") {
  using energon::SampleRef;
  const auto pack = [](const std::vector<SampleRef>& refs) {
    energon::SampleRefPacker packer;
    packer.measure(refs);
    packer.add(refs);
    return packer.take();
  };
  const std::vector<std::vector<SampleRef>> lists = {
      {},
      {{.index = 0}},
      {{.index = 255}, {.index = 0}},
      {{.index = 256, .leaf = 1}, {.index = 7, .repetition = 3}},
      {{.index = INT64_MAX, .leaf = UINT32_MAX, .repetition = UINT32_MAX}, {.index = 1}},
  };
  const std::vector<std::size_t> bytes_each = {0, 0, 1, 4, 16};
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const std::string packed = pack(lists[i]);
    CHECK(packed.size() == 11 + lists[i].size() * bytes_each[i]);
    CHECK(energon::unpack_sample_refs(packed, lists[i].size()) == lists[i]);
    if (!lists[i].empty()) {
      CHECK_THROWS_AS(energon::unpack_sample_refs(packed, lists[i].size() - 1), energon::Error);
    }
  }
  const std::string packed = pack(lists[3]);
  for (std::size_t size = 0; size < packed.size(); ++size) {
    CHECK_THROWS_AS(energon::unpack_sample_refs(packed.substr(0, size), 1000), energon::Error);
  }
  // Eleven bytes that say 2^28 times sample 0 of leaf 0: 4 GiB.
  std::string huge = pack(lists[1]);
  REQUIRE(huge.size() == 11);
  huge[3] = '\0';
  huge[6] = '\x10';
  CHECK_THROWS_WITH(energon::unpack_sample_refs(huge, 1000),
                    Catch::Contains("268435456 references, at most 1000 fit"));
}

TEST_CASE("a rule that a state lacks is the first one, and is given on", "[energon][state]") {
  const State with{
      "Blend", {{"ties", std::int64_t{1}}}, {{"Leaf", {{"ties", std::int64_t{1}}}, {}}}};
  const State without{"Blend", {}, {{"Leaf", {}, {}}}};
  std::vector<std::string> differences;
  energon::compare_shapes(without, with, "", differences);
  CHECK(differences.empty());
  CHECK(without.rule("ties") == 0);
  CHECK(with.rule("ties") == 1);
  State to = with;
  energon::copy_rules(without, to);
  CHECK(to.children[0].rule("ties") == 0);
  CHECK(to.rule("ties") == 0);
  energon::copy_rules(with, to);
  CHECK(to == with);
  energon::clear_rules(to);
  CHECK(to.children[0].rule("ties") == 0);
}

TEST_CASE("a field that is there twice is a difference", "[energon][state]") {
  const State expected{"Leaf", {{"position", std::int64_t{1}}}, {}};
  const State twice{"Leaf", {{"position", std::int64_t{1}}, {"position", std::int64_t{2}}}, {}};
  std::vector<std::string> differences;
  energon::compare_shapes(twice, expected, "", differences);
  CHECK(differences == std::vector<std::string>{"Leaf: 2 fields, expected 1"});
}
