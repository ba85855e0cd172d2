// Pickles of all protocols as data, and pickles that no well-behaved program writes. The letters
// are opcodes: io/pickle.cpp.

#include "io/pickle.h"

#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"
#include "io/json.h"
#include "io/overloaded.h"
#include "tests/support/error_of.h"

namespace energon::testing {

using Catch::Contains;
using std::string_literals::operator""s;

namespace {

constexpr MemoryLimit kLimit{.bytes = 1 << 20, .option = "an option"};

void check_box(std::string_view module, std::string_view name) {
  const std::string full = fmt::format("{}.{}", module, name);
  if (full != "box.Thing" && full != "collections.OrderedDict" && full != "_codecs.encode") {
    throw Error(ErrorCode::kMismatch, "unknown: " + full);
  }
}

PickleGraph graph_of(std::string_view pickle, MemoryLimit limit = kLimit) {
  return read_pickle(as_bytes(pickle), {.name = "x.pkl", .limit = limit, .check_name = check_box});
}

std::string hex_of(std::string_view bytes) {
  std::string result;
  for (const char byte : bytes) {
    result += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return result;
}

// The values as Python shows them. Calls are `module.name(arguments)[items] <- state`.
std::string shown(const PickleGraph& graph, PickleId id) {
  const auto all = [&graph](const std::vector<PickleId>& ids) {
    std::vector<std::string> texts;
    for (const PickleId item : ids) {
      texts.push_back(shown(graph, item));
    }
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  const auto pairs = [&graph](const PickleItems& items) {
    std::vector<std::string> texts;
    for (const auto& [key, value] : items) {
      texts.push_back(shown(graph, key) + ": " + shown(graph, value));
    }
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  return std::visit(
      Overloaded{[](const PickleNone&) { return "None"s; },
                 [](bool value) { return value ? "True"s : "False"s; },
                 [](std::int64_t value) { return std::to_string(value); },
                 [](const PickleLargeInteger& value) { return "0x" + hex_of(value.bytes); },
                 [](double value) { return fmt::format("{}", value); },
                 [](const std::string& value) { return "'" + value + "'"; },
                 [](const SharedBytes& value) { return "b" + hex_of(value.text()); },
                 [&](const PickleSequence& value) {
                   return value.is_list ? "[" + all(value.items) + "]"
                                        : "(" + all(value.items) + ")";
                 },
                 [&](const PickleDict& value) { return "{" + pairs(value.items) + "}"; },
                 [](const PickleGlobal& value) { return value.module + "." + value.name; },
                 [&](const PickleObject& value) {
                   std::string text = shown(graph, value.callable) + shown(graph, value.arguments);
                   text += value.items.empty() ? "" : "[" + pairs(value.items) + "]";
                   return text + (value.state ? " <- " + shown(graph, *value.state) : "");
                 },
                 [&](const PicklePersistentId& value) { return "@" + shown(graph, value.value); }},
      graph.nodes[id]);
}

std::string shown(std::string_view pickle) {
  const PickleGraph graph = graph_of(pickle);
  CHECK(graph.size == pickle.size());
  CHECK(graph.offsets.size() == graph.nodes.size());
  return shown(graph, graph.root);
}

std::string program(const std::string& body) { return "\x80\x02"s + body + "."; }

std::string refused(const std::string& body, ErrorCode code = ErrorCode::kCorruptData) {
  return error_of([&] { graph_of(program(body)); }, code);
}

// pickle.dumps(value, protocol) of CPython 3.11, with a class Thing in a module box:
//   {"none": None, "yes": True, "no": False, "whole": [0, 255, 256, 65535, 65536, -1, 1 << 40,
//    -(1 << 40), (1 << 63) - 1, -(1 << 63)], "large": 1 << 70, "half": -0.5, "text": "Grüße 😀",
//    "bytes": b"\x00\xff", "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
//    "shared": [shared, shared], "empty": [{}, [], ""], 3: "key",
//    "ordered": collections.OrderedDict(a=1), "thing": thing}
constexpr std::string_view kPickles[] = {
    // protocol 2
    "gAJ9cQAoWAQAAABub25lcQFOWAMAAAB5ZXNxAohYAgAAAG5vcQOJWAUAAAB3aG9sZXEEXXEFKEsAS/9NAAFN//9KAAAB"
    "AEr/////igYAAAAAAAGKBgAAAAAA/4oI/////////3+KCAAAAAAAAACAZVgFAAAAbGFyZ2VxBooJAAAAAAAAAABAWAQA"
    "AABoYWxmcQdHv+AAAAAAAABYBAAAAHRleHRxCFgMAAAAR3LDvMOfZSDwn5iAcQlYBQAAAGJ5dGVzcQpjX2NvZGVjcwpl"
    "bmNvZGUKcQtYAwAAAADDv3EMWAYAAABsYXRpbjFxDYZxDlJxD1gGAAAAdHVwbGVzcRBdcREoKUsBhXESSwFLAoZxE0sB"
    "SwJLA4dxFChLAUsCSwNLBHRxFWVYBgAAAHNoYXJlZHEWXXEXKF1xGChLAUsCZWgYZVgFAAAAZW1wdHlxGV1xGih9cRtd"
    "cRxYAAAAAHEdZUsDWAMAAABrZXlxHlgHAAAAb3JkZXJlZHEfY2NvbGxlY3Rpb25zCk9yZGVyZWREaWN0CnEgKVJxIVgB"
    "AAAAYXEiSwFzWAUAAAB0aGluZ3EjY2JveApUaGluZwpxJCmBcSV9cSZYAQAAAHhxJ1gBAAAAeXEoc2J1Lg==",
    // protocol 3
    "gAN9cQAoWAQAAABub25lcQFOWAMAAAB5ZXNxAohYAgAAAG5vcQOJWAUAAAB3aG9sZXEEXXEFKEsAS/9NAAFN//9KAAAB"
    "AEr/////igYAAAAAAAGKBgAAAAAA/4oI/////////3+KCAAAAAAAAACAZVgFAAAAbGFyZ2VxBooJAAAAAAAAAABAWAQA"
    "AABoYWxmcQdHv+AAAAAAAABYBAAAAHRleHRxCFgMAAAAR3LDvMOfZSDwn5iAcQlYBQAAAGJ5dGVzcQpDAgD/cQtYBgAA"
    "AHR1cGxlc3EMXXENKClLAYVxDksBSwKGcQ9LAUsCSwOHcRAoSwFLAksDSwR0cRFlWAYAAABzaGFyZWRxEl1xEyhdcRQo"
    "SwFLAmVoFGVYBQAAAGVtcHR5cRVdcRYofXEXXXEYWAAAAABxGWVLA1gDAAAAa2V5cRpYBwAAAG9yZGVyZWRxG2Njb2xs"
    "ZWN0aW9ucwpPcmRlcmVkRGljdApxHClScR1YAQAAAGFxHksBc1gFAAAAdGhpbmdxH2Nib3gKVGhpbmcKcSApgXEhfXEi"
    "WAEAAAB4cSNYAQAAAHlxJHNidS4=",
    // protocol 4
    "gASVWgEAAAAAAAB9lCiMBG5vbmWUTowDeWVzlIiMAm5vlImMBXdob2xllF2UKEsAS/9NAAFN//9KAAABAEr/////igYA"
    "AAAAAAGKBgAAAAAA/4oI/////////3+KCAAAAAAAAACAZYwFbGFyZ2WUigkAAAAAAAAAAECMBGhhbGaUR7/gAAAAAAAA"
    "jAR0ZXh0lIwMR3LDvMOfZSDwn5iAlIwFYnl0ZXOUQwIA/5SMBnR1cGxlc5RdlCgpSwGFlEsBSwKGlEsBSwJLA4eUKEsB"
    "SwJLA0sEdJRljAZzaGFyZWSUXZQoXZQoSwFLAmVoFGWMBWVtcHR5lF2UKH2UXZSMAJRlSwOMA2tleZSMB29yZGVyZWSU"
    "jAtjb2xsZWN0aW9uc5SMC09yZGVyZWREaWN0lJOUKVKUjAFhlEsBc4wFdGhpbmeUjANib3iUjAVUaGluZ5STlCmBlH2U"
    "jAF4lIwBeZRzYnUu",
    // protocol 5
    "gAWVWgEAAAAAAAB9lCiMBG5vbmWUTowDeWVzlIiMAm5vlImMBXdob2xllF2UKEsAS/9NAAFN//9KAAABAEr/////igYA"
    "AAAAAAGKBgAAAAAA/4oI/////////3+KCAAAAAAAAACAZYwFbGFyZ2WUigkAAAAAAAAAAECMBGhhbGaUR7/gAAAAAAAA"
    "jAR0ZXh0lIwMR3LDvMOfZSDwn5iAlIwFYnl0ZXOUQwIA/5SMBnR1cGxlc5RdlCgpSwGFlEsBSwKGlEsBSwJLA4eUKEsB"
    "SwJLA0sEdJRljAZzaGFyZWSUXZQoXZQoSwFLAmVoFGWMBWVtcHR5lF2UKH2UXZSMAJRlSwOMA2tleZSMB29yZGVyZWSU"
    "jAtjb2xsZWN0aW9uc5SMC09yZGVyZWREaWN0lJOUKVKUjAFhlEsBc4wFdGhpbmeUjANib3iUjAVUaGluZ5STlCmBlH2U"
    "jAF4lIwBeZRzYnUu",
};

}  // namespace

TEST_CASE("pickles of protocol 2 to 5 are the same data", "[io][pickle]") {
  for (std::size_t i = 0; i < std::size(kPickles); ++i) {
    CAPTURE(i + 2);
    std::string expected =
        "{'none': None, 'yes': True, 'no': False, 'whole': [0, 255, 256, 65535, 65536, -1, "
        "1099511627776, -1099511627776, 9223372036854775807, -9223372036854775808], 'large': "
        "0x000000000000000040, 'half': -0.5, 'text': 'Grüße 😀', 'bytes': ";
    // Protocol 2 has no bytes.
    expected += i == 0 ? "_codecs.encode('"s + '\0' + "ÿ', 'latin1')" : "b00ff"s;
    expected +=
        ", 'tuples': [(), (1), (1, 2), (1, 2, 3), (1, 2, 3, 4)], 'shared': [[1, 2], [1, 2]], "
        "'empty': [{}, [], ''], 3: 'key', 'ordered': collections.OrderedDict()['a': 1], 'thing': "
        "box.Thing() <- {'x': 'y'}}";
    CHECK(shown(*from_base64(kPickles[i])) == expected);
  }
}

TEST_CASE("a value that is named twice is one object", "[io][pickle]") {
  const PickleGraph graph = graph_of(program("(]q\x00h\x00t"s));
  const std::vector<PickleId>& items = graph.get<PickleSequence>(graph.root)->items;
  REQUIRE(items.size() == 2);
  CHECK(items[0] == items[1]);
  CHECK(graph.offsets[items[0]] == 3);
}

TEST_CASE("several pickles may follow one another", "[io][pickle]") {
  const std::string two = program("K\x07") + program("]");
  const PickleGraph first = graph_of(two);
  CHECK(shown(first, first.root) == "7");
  CHECK(shown(std::string_view(two).substr(first.size)) == "[]");
}

TEST_CASE("rare forms of values are read", "[io][pickle]") {
  CHECK(shown(program("\x8a\x00"s)) == "0");
  CHECK(shown(program("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\xff")) == "-1");
  CHECK(shown(program("\x8b\x02\x00\x00\x00\x00\x80"s)) == "-32768");
  CHECK(shown(program("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00"s)) == "0x000000000000008000");
  CHECK(shown(program("\x96\x02\x00\x00\x00\x00\x00\x00\x00hi"s)) == "b6869");
  CHECK(shown(program("\x8e\x02\x00\x00\x00\x00\x00\x00\x00hi"s)) == "b6869");
  CHECK(shown(program("\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi"s)) == "'hi'");
  CHECK(shown(program("K\x01Q")) == "@1");
  CHECK(shown(program("cbox\nThing\nK\x05\x85R}b]b")) == "box.Thing(5) <- []");
}

TEST_CASE("a name that the caller does not know is refused", "[io][pickle]") {
  CHECK_THAT(refused("cos\nsystem\n\x8c\x02ls\x85R", ErrorCode::kMismatch),
             Contains("unknown: os.system") && Contains("(byte 2 of x.pkl, opcode 'c')"));
  CHECK_THAT(refused("\x8c\x02os\x8c\x06system\x93", ErrorCode::kMismatch),
             Contains("unknown: os.system") && Contains("(byte 14 of x.pkl, opcode 0x93)"));
  CHECK_THAT(refused("cbox\nThing.__init__\n", ErrorCode::kMismatch), Contains("Thing.__init__"));
}

TEST_CASE("opcodes that simple objects do not need are refused", "[io][pickle]") {
  for (const int op : std::initializer_list<int>{
           '0', '1', '2', 'I', 'L',  'F',  'S',  'U',  'T',  'P',  'V',  'd',  'l',
           'g', 'i', 'o', 'p', 0x80, 0x82, 0x8F, 0x90, 0x91, 0x92, 0x97, 0x98, 0xFF}) {
    CAPTURE(op);
    CHECK_THAT(refused("]"s + static_cast<char>(op) + "12345678\n", ErrorCode::kUnsupported),
               Contains("does not write for simple objects") && Contains("byte 3 of x.pkl"));
  }
  CHECK_THAT(error_of([] { graph_of("\x80\x06N."); }, ErrorCode::kUnsupported),
             Contains("found protocol 6"));
  CHECK_THAT(error_of([] { graph_of("N."); }, ErrorCode::kCorruptData),
             Contains("protocol 2 to 5"));
}

TEST_CASE("a pickle cannot take more from its stack than it contains", "[io][pickle]") {
  for (const std::string& body : {""s,
                                  "\x85"s,
                                  "N\x86"s,
                                  "t"s,
                                  "a"s,
                                  "N(a"s,
                                  "]Na("s,
                                  "}Ns"s,
                                  "}(Nu"s,
                                  "e"s,
                                  "u"s,
                                  "R"s,
                                  "\x81"s,
                                  "b"s,
                                  "Q"s,
                                  "q\x00"s,
                                  "h\x00"s,
                                  "Nq\x01"s,
                                  "Nr\xff\xff\xff\xff"s,
                                  "j\xff\xff\xff\x7f"s,
                                  "\x93"s,
                                  "NN\x93"s,
                                  "cbox\nThing\nNR"s,
                                  "cbox\nThing\n]\x81"s,
                                  "cbox\nThing"s,
                                  "X\xff\xff\xff\xff"s,
                                  "\x8d\xff\xff\xff\xff\xff\xff\xff\xff"s,
                                  "\x8a\xff"s,
                                  "\x8b\xff\xff\xff\x7f"s,
                                  "B\xff\xff\xff\xff"s,
                                  "\x8c\x01\xff"s,
                                  "\x95"s}) {
    CAPTURE(body);
    CHECK_THAT(refused(body), Contains("of x.pkl"));
  }
  for (const std::string& body :
       {"NNa"s, ")Na"s, "NNNs"s, "N(Ne"s, "]Nb"s, "}Nb"s, "N)R"s, "])\x81"s}) {
    CAPTURE(body);
    CHECK_THAT(refused(body, ErrorCode::kUnsupported), Contains("of x.pkl"));
  }
}

TEST_CASE("a pickle does not exceed its memory limit", "[io][pickle]") {
  for (const char op : {']', '}', ')', 'N', '('}) {
    CAPTURE(op);
    CHECK_THAT(refused(std::string(1 << 20, op), ErrorCode::kResourceExhausted),
               Contains("the limit is 1048576 (an option)"));
  }
  CHECK_THAT(error_of([] { graph_of(program("\x8c\x05hello"), {.bytes = 4}); },
                      ErrorCode::kResourceExhausted),
             Contains("the limit is 4"));
  // Nesting does not use the call stack.
  const std::string nested = std::string(1'000'000, ']') + std::string(999'999, 'a');
  CHECK(graph_of(program(nested), {.bytes = 1 << 30}).nodes.size() == 1'000'000);
}

}  // namespace energon::testing
