#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/state/state.h"
#include "io/error.h"

using energon::ByteReader;
using energon::ByteWriter;
using energon::Error;
using energon::State;
using energon::StructureReader;
using energon::StructureWriter;

namespace {

// The structures, then the states.
std::string write(const std::vector<State>& states) {
  StructureWriter structures;
  ByteWriter values;
  for (const State& state : states) {
    structures.write(values, state);
  }
  ByteWriter all;
  structures.write_structures(all);
  return all.take() + values.take();
}

std::vector<State> read(const std::string& bytes, std::size_t count) {
  ByteReader reader(bytes, "states");
  const StructureReader structures(reader);
  std::vector<State> states;
  for (std::size_t i = 0; i < count; ++i) {
    states.push_back(structures.read(reader));
  }
  reader.finish();
  return states;
}

State position(std::int64_t value) {
  return {"SliceOrder",
          {{"position", value},
           {"open", std::vector<std::int64_t>{value, -1, INT64_MIN}},
           {"rng", std::string("4711 ") + std::to_string(value)}},
          {}};
}

State random_state(std::mt19937& random, int depth) {
  State state;
  state.type = std::string(random() % 20, 't');
  for (std::uint32_t f = random() % 4; f > 0; --f) {
    const auto number = static_cast<std::int64_t>(random()) * (random() % 2 == 0 ? -1 : 1)
                        << random() % 31;
    switch (random() % 3) {
      case 0:
        state.fields.emplace_back("integer", number);
        break;
      case 1:
        state.fields.emplace_back("bytes", std::string(random() % 300, '\xff'));
        break;
      default:
        state.fields.emplace_back("integers", std::vector<std::int64_t>(random() % 5, number));
    }
  }
  for (std::uint32_t c = depth < 4 ? random() % 3 : 0; c > 0; --c) {
    state.children.push_back(random_state(random, depth + 1));
  }
  return state;
}

}  // namespace

TEST_CASE("states survive a round trip", "[energon][state]") {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    std::vector<State> states;
    for (std::uint32_t i = random() % 6; i > 0; --i) {
      states.push_back(states.empty() || random() % 2 == 0 ? random_state(random, 0)
                                                           : states[random() % states.size()]);
    }
    REQUIRE(read(write(states), states.size()) == states);
  }
}

TEST_CASE("the structure of many states is written once", "[energon][state]") {
  std::vector<State> states;
  for (std::int64_t i = 0; i < 100; ++i) {
    states.push_back(position(i));
  }
  const std::string bytes = write(states);
  CHECK(bytes.find("SliceOrder") == bytes.rfind("SliceOrder"));
  CHECK(bytes.size() < 100 * 26 + 80);
  CHECK(read(bytes, states.size()) == states);
}

TEST_CASE("a state with few values carries its own structure", "[energon][state]") {
  State state{std::string(1000, 't'), {{"position", std::int64_t{1}}}, {}};
  CHECK(read(write({state, state}), 2) == std::vector<State>{state, state});
  // Keeps a small file from requesting many large structures: this one requests two.
  state.fields[0].second = std::string(200, 'v');
  std::string bytes = write({state, state});
  CHECK(bytes.find("ttt") < bytes.find("vvv"));
  CHECK(bytes.rfind("ttt") < bytes.find("vvv"));
  const std::size_t size_at = bytes.find("vvv") - 4;  // 202 bytes of values, 200 of the field
  REQUIRE(bytes.substr(size_at, 2) == "\xca\x01");
  bytes.replace(size_at, 2, std::string("\x10\x00", 2));
  CHECK_THROWS_WITH(read(bytes, 2), Catch::Contains("damaged at byte"));
}

TEST_CASE("truncated or changed bytes of states are refused or decode to other states",
          "[energon][state]") {
  const std::string bytes = write({position(3), position(4), State{"Other", {}, {}}});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    REQUIRE_THROWS_AS(read(bytes.substr(0, size), 3), Error);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    CAPTURE(i);
    for (const char mask : {'\x01', '\x40', '\x80', '\xff'}) {
      CAPTURE(mask);
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ mask);
      try {
        const std::vector<State> states = read(changed, 3);
        REQUIRE(read(write(states), 3) == states);
      } catch (const Error& error) {
        REQUIRE(error.code() == energon::ErrorCode::kCorruptData);
      }
    }
  }
}

TEST_CASE("varints have up to 64 bits", "[energon][state]") {
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{63},
                                   std::int64_t{64}, std::int64_t{-65}, INT64_MAX, INT64_MIN}) {
    CAPTURE(value);
    ByteWriter writer;
    writer.signed_varint(value);
    writer.varint(static_cast<std::uint64_t>(value));
    ByteReader reader(writer.bytes(), "numbers");
    CHECK(reader.signed_varint() == value);
    CHECK(reader.varint() == static_cast<std::uint64_t>(value));
    reader.finish();
  }
  const auto read_number = [](const std::string& bytes) {
    return ByteReader(bytes, "numbers").varint();
  };
  CHECK(read_number(std::string(9, '\xff') + "\x01") == UINT64_MAX);
  CHECK_THROWS_WITH(read_number(std::string(9, '\xff') + "\x02"), Catch::Contains("64 bits"));
  CHECK_THROWS_WITH(read_number(std::string(10, '\xff') + "\x01"), Catch::Contains("64 bits"));
  CHECK_THROWS_WITH(read_number(std::string(3, '\xff')),
                    Catch::Contains("expected 1 bytes, found 0"));
}
