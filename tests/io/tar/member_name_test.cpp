#include "io/tar/member_name.h"

#include <cstddef>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

using energon::MemberName;
using energon::part_of_key;
using energon::split_member_name;
using std::string_view_literals::operator""sv;

namespace {

struct Row {
  std::string_view name;
  std::string_view key;
  std::string_view part;
};

// All strings of up to `length` of the characters that the rule distinguishes, and one other.
std::vector<std::string> all_names(std::size_t length) {
  std::vector<std::string> names = {""};
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].size() < length) {
      for (const char c : "a./_\n"sv) {
        names.push_back(names[i] + c);
      }
    }
  }
  return names;
}

// The rule as in Energon, without the files that macOS adds.
std::optional<Row> split_by_regex(std::string_view name) {
  static const std::regex kReserved("__[^/]*__(/[^]*|\n?)");
  static const std::regex kSplit("((?:.*/|)[^.]+)[.]([^/]*)");
  using Match = std::match_results<std::string_view::const_iterator>;
  const std::string_view last = name.substr(name.rfind('/') + 1);
  Match match;
  if (last.starts_with("._") || std::regex_match(name.begin(), name.end(), kReserved) ||
      !std::regex_match(name.begin(), name.end(), match, kSplit)) {
    return std::nullopt;
  }
  const auto size = static_cast<std::size_t>(match[1].length());
  return Row{name, name.substr(0, size), name.substr(size + 1)};
}

}  // namespace

TEST_CASE("a member name is split at the first dot of its last component", "[io][tar]") {
  const auto row = GENERATE(values<Row>({
      {"d/0.jpg", "d/0", "jpg"},
      {"d/0.seg.png", "d/0", "seg.png"},
      {"a.b/7.tar.gz", "a.b/7", "tar.gz"},
      {"./1.txt", "./1", "txt"},
      {"trail.", "trail", ""},
      {"a.", "a", ""},
      {"d.v1/b.seg.png", "d.v1/b", "seg.png"},
      {"c.tar.gz", "c", "tar.gz"},
      {"a.TXT", "a", "TXT"},
      {"../../x.txt", "../../x", "txt"},
      {"/abs.txt", "/abs", "txt"},
      {"a//b.txt", "a//b", "txt"},
      {"x.__key__", "x", "__key__"},
      {"__key__.txt", "__key__", "txt"},
      {"\xe9t\xe9.txt", "\xe9t\xe9", "txt"},
      {"new\nline.txt", "new\nline", "txt"},
      {"a\nb/c.txt", "a\nb/c", "txt"},
      {"a.b\n", "a", "b\n"},
  }));
  CAPTURE(row.name);
  CHECK(split_member_name(row.name) == MemberName{row.key, row.part});
}

TEST_CASE("a hidden file in a folder has Energon's odd key", "[io][tar]") {
  const auto row = GENERATE(values<Row>({
      {"d/.hid.txt", "d/", "hid.txt"},
      {"d/.x.txt", "d/", "x.txt"},
      {"a.b/c/.x", "a.b/c/", "x"},
      {"/.x", "/", "x"},
      {"a//.x", "a//", "x"},
      {"d/.", "d/", ""},
  }));
  CAPTURE(row.name);
  CHECK(split_member_name(row.name) == MemberName{row.key, row.part});
}

TEST_CASE("names without a key and a part belong to no sample", "[io][tar]") {
  const auto name = GENERATE(values<std::string_view>(
      {"", ".hidden", "README", "dir with.dot/k", "a.b/.x", ".", "..", "..txt", "./.x", "d/",
       "a.b/", "pax_global_header", "a.\nb/c.txt", "/", "//"}));
  CAPTURE(name);
  CHECK_FALSE(split_member_name(name));
}

TEST_CASE("names whose first component is between double underscores belong to no sample",
          "[io][tar]") {
  CHECK_FALSE(split_member_name("__meta__/x.json"));
  CHECK_FALSE(split_member_name("____/x.json"));
  CHECK_FALSE(split_member_name("__a.b__"));
  CHECK_FALSE(split_member_name("__a.b__\n"));
  CHECK(split_member_name("sub/__meta__/y.json") == MemberName{"sub/__meta__/y", "json"});
  CHECK(split_member_name("__meta__.json") == MemberName{"__meta__", "json"});
  CHECK(split_member_name("___/x.json") == MemberName{"___/x", "json"});
  CHECK(split_member_name("__meta/x.json") == MemberName{"__meta/x", "json"});
}

TEST_CASE("files that macOS adds belong to no sample", "[io][tar]") {
  const auto name = GENERATE(values<std::string_view>(
      {"._a.txt", "d/._a.txt", "__MACOSX/d/._0.jpg", ".DS_Store", "d/.DS_Store"}));
  CAPTURE(name);
  CHECK_FALSE(split_member_name(name));
}

TEST_CASE("part names with two leading underscores are reserved", "[io][tar]") {
  CHECK(energon::is_reserved_part("__key__"));
  CHECK(energon::is_reserved_part("__x"));
  CHECK_FALSE(energon::is_reserved_part("_x"));
  CHECK_FALSE(energon::is_reserved_part("x__"));
}

TEST_CASE("every short name is split like Energon's regular expression", "[io][tar]") {
  for (const std::string& name : all_names(6)) {
    const auto expected = split_by_regex(name);
    const auto split = split_member_name(name);
    CAPTURE(name);
    REQUIRE(split.has_value() == expected.has_value());
    if (split) {
      REQUIRE(*split == MemberName{expected->key, expected->part});
    }
  }
}

TEST_CASE("part_of_key() agrees with splitting the name", "[io][tar]") {
  const std::vector<std::string> names = all_names(4);
  std::size_t found = 0;
  for (const std::string& first : names) {
    const auto known = split_member_name(first);
    if (!known) {
      continue;
    }
    for (const std::string& rest : names) {
      const std::string name = std::string(known->key) + rest;
      if (const auto part = part_of_key(name, known->key)) {
        CAPTURE(name, known->key);
        REQUIRE(split_member_name(name) == MemberName{known->key, *part});
        ++found;
      }
    }
  }
  CHECK(found > 1000);
  CHECK(part_of_key("d/0.seg.png", "d/0") == "seg.png");
}
