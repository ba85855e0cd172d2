#include <string>

#include <catch2/catch.hpp>

#include "media/metadata/media_filter.h"

using energon::fits_pattern;

// Python 3.11: fnmatch.fnmatchcase(name, pattern)
TEST_CASE("names match patterns as in Python", "[media][metadata]") {
  struct Case {
    std::string name;
    std::string pattern;
    bool fits;
  };
  const Case cases[] = {
      {"000.jpg", "*.jpg", true},
      {"000.jpg", "*.JPG", false},
      {"a/b.seg.png", "*.png", true},
      {"a/b.seg.png", "a*seg*", true},
      {".jpg", "*.jpg", true},
      {"jpg", "*.jpg", false},
      {"", "", true},
      {"", "*", true},
      {"", "?", false},
      {"a", "", false},
      {"abc", "a?c", true},
      {"abc", "a?", false},
      {"abc", "abcd", false},
      {"abc", "**c", true},
      {"abcabd", "*ab?", true},
      {"mississippi", "m*iss*ip*i", true},
      {"mississippi", "m*iss*iz*i", false},
      {"a5", "a[0-9]", true},
      {"ax", "a[0-9]", false},
      {"ax", "a[!0-9]", true},
      {"a5", "a[!0-9]", false},
      {"a]", "a[]]", true},
      {"a]", "a[!]]", false},
      {"a-", "a[-x]", true},
      {"a-", "a[x-]", true},
      {"a[", "a[", true},
      {"a[b", "a[b", true},
      {"ab", "a[b", false},
      {"a!", "a[b!]", true},
      {"a^", "a[^b]", true},
      {"ac", "a[^b]", false},
      {"\xC3\xA9.jpg", "?.jpg", true},
      {"\xC3\xA9", "[\xC3\xA0-\xC3\xBF]", true},
      {"\xE2\x82\xAC", "?", true},
      {"a*", "a[*]", true},
  };
  for (const Case& one : cases) {
    CAPTURE(one.name, one.pattern);
    CHECK(fits_pattern(one.name, one.pattern) == one.fits);
  }
}

TEST_CASE("patterns of many stars and broken text are matched quickly", "[media][metadata]") {
  std::string pattern;
  for (int i = 0; i < 100; ++i) {
    pattern += "a*";
  }
  CHECK_FALSE(fits_pattern(std::string(2000, 'a'), pattern + "b"));
  CHECK(fits_pattern("\xFF\xC3", "??"));
  CHECK(fits_pattern("\xE2\x82", "*"));
  CHECK_FALSE(fits_pattern("a", "\xC3"));
}
